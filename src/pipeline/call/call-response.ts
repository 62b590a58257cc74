/** The result of a call, which the HTTP layer sends to the caller. */
import type { CallResult } from '../../core/call.ts';
import type { RequestChanges } from '../../dialects/translate/request-changes.ts';
import type { DeliverStream, DeliveryEnd } from './deliver-stream.ts';

/**
 * The response to the caller. If it's a stream, you always have to call `deliver`, because nothing else settles the
 * call. If there's nobody to send it to, pass a writer that returns false. Calling `deliver` again is harmless.
 */
export type CallResponse = {
  readonly model: string;
  readonly cache: CallResult['cache'];
  /** Ids of the memories that recall put into the prompt. */
  readonly recalled: readonly string[];
  /** The request fields that we dropped or adjusted for the vendor. */
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
