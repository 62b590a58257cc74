/**
 * Limits how much memory a process uses for request bodies. If too many large requests arrive at the same time, we
 * refuse some of them so that we don't run out of memory (docs/decisions/2026-11-22-body-memory.md). Bytes count from
 * their arrival until the response is complete.
 *
 * The bodies of a project may take up at most seven times the memory that is still free, and those of a key at most
 * seven times what is still free for its project. So a key that is alone can use three quarters of the memory, and
 * there is always some left for other keys and projects.
 */
import { gatewayError } from '../core/errors.ts';
import { type KeyBodies, maxBodyBytes } from './body.ts';

export interface BodyMemory {
  /** Without a key, all bodies of the project share the same limit. */
  of(projectId: string, keyId?: string): KeyBodies;
  /** Returns true if we'd probably refuse even a small request because there's too little memory left. */
  isFull(): boolean;
  readonly heldBytes: number;
  readonly maxBytes: number;
}

const smallRequestBytes = 65_536;

/** A project or key may use this many times the free memory. Network switches share their buffers in the same way. */
const shareOfFree = 7;

export function createBodyMemory(maxBytes: number): BodyMemory {
  let heldBytes = 0;
  const heldByProject = new Map<string, number>();
  const heldByKey = new Map<string, number>();
  // If there are no other bodies, there should always be room for one of the maximum size and the overhead of its pieces.
  const unsharedBytes = Math.min(maxBytes, maxBodyBytes + 1024 * 1024);
  return {
    of: (projectId, keyId = projectId) => ({
      hold(bytes) {
        const projectBytes = (heldByProject.get(projectId) ?? 0) + bytes;
        const keyBytes = (heldByKey.get(keyId) ?? 0) + bytes;
        const freeBytes = maxBytes - heldBytes - bytes;
        // After this many more bytes, the project would reach its limit.
        const freeForProject = (shareOfFree * freeBytes - projectBytes) / (shareOfFree + 1);
        if (heldBytes + bytes > unsharedBytes && keyBytes > shareOfFree * freeForProject)
          throw gatewayError('budget_unavailable', { message: 'too many large requests are being served; try again in a moment' });
        heldByProject.set(projectId, projectBytes);
        heldByKey.set(keyId, keyBytes);
        heldBytes += bytes;
      },
      release(bytes) {
        subtract(heldByProject, projectId, bytes);
        subtract(heldByKey, keyId, bytes);
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

function subtract(heldBy: Map<string, number>, id: string, bytes: number): void {
  const left = (heldBy.get(id) ?? 0) - bytes;
  if (left > 0) heldBy.set(id, left);
  else heldBy.delete(id);
}
