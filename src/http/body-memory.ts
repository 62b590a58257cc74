/**
 * Bounds the bytes of request bodies that the process holds: many large requests at once are refused instead of exhausting its memory
 * (docs/decisions/2026-11-22-body-memory.md). Bytes count as they arrive, until the response is complete.
 */
import { gatewayError } from '../core/errors.ts';

export interface BodyMemory {
  /** Counts bytes that arrived. Throws `budget_unavailable` when there are too many, and then counts none of them. */
  hold(bytes: number): void;
  release(bytes: number): void;
  /** True when even a small request is likely to be refused. */
  isFull(): boolean;
  readonly heldBytes: number;
  readonly maxBytes: number;
}

const smallRequestBytes = 65_536;

export function createBodyMemory(maxBytes: number): BodyMemory {
  let heldBytes = 0;
  return {
    hold(bytes) {
      if (heldBytes + bytes > maxBytes) throw gatewayError('budget_unavailable', { message: 'too many large requests are being served' });
      heldBytes += bytes;
    },
    release(bytes) {
      heldBytes -= bytes;
    },
    isFull: () => heldBytes + smallRequestBytes > maxBytes,
    get heldBytes() {
      return heldBytes;
    },
    maxBytes,
  };
}
