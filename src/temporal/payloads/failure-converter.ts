/**
 * Converts errors to the failures that Temporal stores for workflows and activities. We move the message and stack into
 * a payload (`encodedAttributes`), so that they're encrypted too. Only the error code and 'Encoded failure' stay
 * readable. If the message is a note, it also stays readable, but we drop its stack.
 *
 * Failures are the only payloads that can contain free text. We mark them so that `payloads.ts` accepts them, and
 * nothing else sets this mark. The SDK loads this module by path in the client, the worker and the workflow bundle.
 */
import { DefaultFailureConverter, type FailureConverter } from '@temporalio/common';
import { isNote } from '../../../workflows/notes.ts';

export const failureMark = 'gateway-failure';

const converter = new DefaultFailureConverter({ encodeCommonAttributes: true });

/** The SDK looks for an export with the name `failureConverter`. */
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
