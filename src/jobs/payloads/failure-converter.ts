/**
 * Converts errors to failures of workflows and activities. Message and stack go into a payload (`encodedAttributes`), so that codecs encrypt
 * them too; only 'Encoded failure' and the error code stay readable. A message that is a note stays readable, without its stack.
 *
 * The payload is marked, because only failures may contain sentences: `payloads.ts` admits them by the mark, which the converter of all
 * other payloads never sets. The SDK loads this module by path: in the client, in the worker and in the workflow bundle.
 */
import { DefaultFailureConverter, type FailureConverter } from '@temporalio/common';
import { isNote } from '../../../workflows/notes.ts';

/** Metadata key of a payload with a failure's message and stack. */
export const failureMark = 'gateway-failure';

const converter = new DefaultFailureConverter({ encodeCommonAttributes: true });

/** The SDK requires this export name. */
export const failureConverter: FailureConverter = {
  errorToFailure(error, payloadConverter, context) {
    const failure = converter.errorToFailure(error, payloadConverter, context);
    let source: unknown = error;
    for (let part: typeof failure | null | undefined = failure; part; part = part.cause) {
      if (source instanceof Error && isNote(source.message)) {
        part.message = source.message;
        part.encodedAttributes = null;
      } else if (part.encodedAttributes?.metadata) part.encodedAttributes.metadata[failureMark] = Uint8Array.of(1);
      source = source instanceof Error ? source.cause : undefined;
    }
    return failure;
  },
  failureToError: (failure, payloadConverter, context) => converter.failureToError(failure, payloadConverter, context),
};
