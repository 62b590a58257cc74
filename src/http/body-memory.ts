/**
 * Limits how much memory the process spends on request bodies. When many large requests arrive at the same time, we
 * refuse some of them instead of running out of memory (docs/decisions/2026-11-22-body-memory.md). Bytes count from
 * their arrival until the response is complete. An eighth of the memory is reserved for keys that hold no more than an
 * eighth themselves, so that one key with large or slow bodies can't lock out everyone else.
 */
import { gatewayError } from '../core/errors.ts';
import { type KeyBodies, maxBodyBytes } from './body.ts';

export interface BodyMemory {
  of(keyId: string): KeyBodies;
  /** Returns true if even a small request would probably be refused. */
  isFull(): boolean;
  readonly heldBytes: number;
  readonly maxBytes: number;
}

const smallRequestBytes = 65_536;

export function createBodyMemory(maxBytes: number): BodyMemory {
  let heldBytes = 0;
  const heldByKey = new Map<string, number>();
  // A body of the maximum size has to fit if it's the only one.
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
