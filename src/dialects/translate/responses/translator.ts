/** Contract of the stream translators for callers of responses. */
import type { JsonObject } from '../../../core/json/narrow.ts';
import type { StreamTranslator } from '../stream.ts';

export interface ResponsesTranslator extends StreamTranslator {
  /** The event that reports a failure to the caller, after the response has begun. */
  fail(message: string): string;
  /** The response as it was sent so far. */
  response(): JsonObject;
}
