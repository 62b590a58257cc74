/** The result of a call, which the HTTP layer sends to the caller. */
import type { CallResult } from '../../core/call.ts';
import type { RequestChanges } from '../../dialects/translate/request-changes.ts';
import type { DeliverStream, DeliveryEnd } from './deliver-stream.ts';

/**
 * The response to the caller. You must call `deliver`, because only `deliver` settles the call. To abandon a response
 * that can't be sent, pass a writer that returns false. That has no effect if the response has already been
 * delivered.
 */
export type CallResponse = {
  readonly model: string;
  readonly cache: CallResult['cache'];
  /** The ids of the memories in the prompt. */
  readonly recalled: readonly string[];
  /** What happened to members of the request that the vendor didn't get as they were sent. */
  readonly changes?: RequestChanges | null;
} & (
  | { readonly kind: 'plain'; readonly status: number; readonly contentType: string; readonly bytes: Buffer }
  | { readonly kind: 'stream'; readonly deliver: DeliverStream }
);

/** Makes `deliver` idempotent. A second delivery waits for the first one. */
export function once(deliver: DeliverStream): DeliverStream {
  let delivered: Promise<DeliveryEnd> | null = null;
  return (write) => {
    delivered ??= deliver(write);
    return delivered;
  };
}
