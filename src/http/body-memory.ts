/**
 * Bounds the bytes of request bodies that the process holds: many large requests at once are refused instead of exhausting its memory
 * (docs/decisions/2026-11-22-body-memory.md). Bytes count as they arrive, until the response is complete.
 *
 * The last eighth is for keys that hold no more than that, so that one key with large or slow bodies does not refuse the requests of all others.
 */
import { gatewayError } from '../core/errors.ts';
import { type KeyBodies, maxBodyBytes } from './body.ts';

export interface BodyMemory {
  of(keyId: string): KeyBodies;
  /** True when even a small request is likely to be refused. */
  isFull(): boolean;
  readonly heldBytes: number;
  readonly maxBytes: number;
}

const smallRequestBytes = 65_536;

export function createBodyMemory(maxBytes: number): BodyMemory {
  let heldBytes = 0;
  const heldByKey = new Map<string, number>();
  // A body of the largest size must fit alone.
  const sharedBytes = Math.max(maxBytes - maxBytes / 8, Math.min(maxBytes, maxBodyBytes));
  return {
    of: (keyId) => ({
      hold(bytes) {
        const ownBytes = (heldByKey.get(keyId) ?? 0) + bytes;
        const limit = ownBytes > maxBytes - sharedBytes ? sharedBytes : maxBytes;
        if (heldBytes + bytes > limit) throw gatewayError('budget_unavailable', { message: 'too many large requests are being served' });
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
