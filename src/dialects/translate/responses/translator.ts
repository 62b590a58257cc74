/** Contract of the stream translators for callers of responses. */
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { StreamTranslator } from '../stream.ts';

export interface ResponsesTranslator extends StreamTranslator {
  /** The response as it was sent so far. */
  response(): JsonObject;
}
