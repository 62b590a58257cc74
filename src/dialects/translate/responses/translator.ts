/** The interface of all stream translators for the responses route. */
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { StreamTranslator } from '../stream.ts';

export interface ResponsesTranslator extends StreamTranslator {
  /** Returns the response as far as we've sent it. */
  response(): JsonObject;
}
