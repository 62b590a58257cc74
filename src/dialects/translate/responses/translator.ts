/** The contract of the stream translators for responses callers. */
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { StreamTranslator } from '../stream.ts';

export interface ResponsesTranslator extends StreamTranslator {
  /** Returns the response as far as we have sent it. */
  response(): JsonObject;
}
