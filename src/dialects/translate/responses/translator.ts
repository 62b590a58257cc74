import type { JsonObject } from '../../../core/json/narrow.ts';
import type { StreamTranslator } from '../stream.ts';

export interface ResponsesTranslator extends StreamTranslator {
  /** Returns the response as far as it was sent. */
  response(): JsonObject;
}
