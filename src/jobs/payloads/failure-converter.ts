/**
 * How errors become failures of workflows and activities: message and stack go into a payload (`encodedAttributes`), which passes the
 * codecs like every other and so is encrypted where a key is configured (lessons 48); what stays readable is 'Encoded failure' and our code.
 *
 * The payload is marked, since only a failure may hold sentences: `payloads.ts` lets them through by the mark, and the payload converter
 * that makes all other payloads never sets it. Loaded by name: by the client and the worker, and into the workflow bundle.
 */
import { DefaultFailureConverter, type FailureConverter } from '@temporalio/common';
import { failureMark } from './failure-mark.ts';

const converter = new DefaultFailureConverter({ encodeCommonAttributes: true });

/** The SDK asks for this name. */
export const failureConverter: FailureConverter = {
  errorToFailure(error, payloadConverter, context) {
    const failure = converter.errorToFailure(error, payloadConverter, context);
    for (let part: typeof failure | null | undefined = failure; part; part = part.cause) {
      if (part.encodedAttributes?.metadata) part.encodedAttributes.metadata[failureMark] = Uint8Array.of(1);
    }
    return failure;
  },
  failureToError: (failure, payloadConverter, context) => converter.failureToError(failure, payloadConverter, context),
};
