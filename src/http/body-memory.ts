/**
 * Limits how much memory a process uses for request bodies. If too many large requests arrive at the same time, we
 * refuse some of them so that we don't run out of memory (docs/decisions/2026-11-22-body-memory.md). Bytes count from
 * their arrival until the response is complete. An eighth of the memory is reserved for keys that use less than an
 * eighth, so that a single key with large or slow bodies can't lock out everyone else.
 */
import { gatewayError } from '../core/errors.ts';
import { type KeyBodies, maxBodyBytes } from './body.ts';

export interface BodyMemory {
  of(keyId: string): KeyBodies;
  /** Returns true if we'd probably refuse even a small request because there's too little memory left. */
  isFull(): boolean;
  readonly heldBytes: number;
  readonly maxBytes: number;
}

const smallRequestBytes = 65_536;

export function createBodyMemory(maxBytes: number): BodyMemory {
  let heldBytes = 0;
  const heldByKey = new Map<string, number>();
  // Leave enough shared memory for at least one body of the maximum size.
  const sharedBytes = Math.max(maxBytes - maxBytes / 8, Math.min(maxBytes, maxBodyBytes));
  return {
    of: (keyId) => ({
      hold(bytes) {
        const ownBytes = (heldByKey.get(keyId) ?? 0) + bytes;
        const limit = ownBytes > maxBytes - sharedBytes ? sharedBytes : maxBytes;
        if (heldBytes + bytes > limit)
          throw gatewayError('budget_unavailable', { message: 'too many large requests are being served; try again in a moment' });
        heldByKey.set(keyId, ownBytes);
        heldBytes += bytes;
      },
      release(bytes) {
        const ownBytes = (heldByKey.get(keyId) ?? 0) - bytes;
        if (ownBytes > 0) heldByKey.set(keyId, ownBytes);
        else heldByKey.delete(keyId);
        heldBytes -= bytes;
      },
    }),
    isFull: () => heldBytes + smallRequestBytes > maxBytes,
    get heldBytes() {
      return heldBytes;
    },
    maxBytes,
  };
}
