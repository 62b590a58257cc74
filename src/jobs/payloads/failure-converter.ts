/**
 * Converts errors to failures of workflows and activities. The message and the stack go into a payload
 * (`encodedAttributes`), so that they're encrypted too, and only 'Encoded failure' and the error code stay readable. If
 * the message is a note, it stays readable as well, but without its stack.
 *
 * Only failures may contain sentences. We mark their payload so that `payloads.ts` accepts it, and no other code sets
 * this mark. The SDK loads this module by path in the client, the worker and the workflow bundle.
 */
import { DefaultFailureConverter, type FailureConverter } from '@temporalio/common';
import { isNote } from '../../../workflows/notes.ts';

/** The metadata key that marks a payload as the message and stack of a failure. */
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
