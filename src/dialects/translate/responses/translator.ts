/** What all stream translators for the responses route have in common. */
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { StreamTranslator } from '../stream.ts';

export interface ResponsesTranslator extends StreamTranslator {
  /** The response as far as we've sent it. */
  response(): JsonObject;
}
