/**
 * Gives forms and MCP messages a share of the memory for request bodies. Visitors who haven't signed in only get a
 * sixteenth of it, and each network much less, so they can't take memory away from calls, nor from each other.
 */
import { gatewayError } from '../core/errors.ts';
import type { KeyBodies } from './body.ts';
import type { BodyMemory } from './body-memory.ts';

/** Counts the body of one request. */
interface RequestBody extends KeyBodies {
  /** Call this when the response is complete. */
  releaseAll(): void;
}

export interface BodyShares {
  ofVisitor(network: string): RequestBody;
  ofAccount(personId: string): RequestBody;
}

/** Enough for dozens of people behind one address who sign in at the same time. */
const maxNetworkBytes = 1024 * 1024;
/** Enough for two of the largest forms. */
const maxAccountBytes = 32 * 1024 * 1024;

export function createBodyShares(memory: Pick<BodyMemory, 'of' | 'maxBytes'>): BodyShares {
  const networks = createShares(maxNetworkBytes, Math.floor(memory.maxBytes / 16));
  const accounts = createShares(maxAccountBytes, memory.maxBytes);

  function startCounting(bodies: KeyBodies, shares: Shares, id: string): RequestBody {
    let heldBytes = 0;
    const release = (bytes: number): void => {
      heldBytes -= bytes;
      shares.add(id, -bytes);
      bodies.release(bytes);
    };
    return {
      hold(bytes) {
        if (!shares.hasRoom(id, bytes))
          throw gatewayError('budget_unavailable', { message: 'too many forms are arriving at the same time; try again in a moment' });
        bodies.hold(bytes);
        shares.add(id, bytes);
        heldBytes += bytes;
      },
      release,
      releaseAll: () => release(heldBytes),
    };
  }

  return {
    ofVisitor: (network) => startCounting(memory.of(`console:${network}`), networks, network),
    ofAccount: (personId) => startCounting(memory.of(`account:${personId}`), accounts, personId),
  };
}

type Shares = ReturnType<typeof createShares>;

function createShares(maxBytes: number, maxTotalBytes: number) {
  const heldById = new Map<string, number>();
  let totalBytes = 0;
  return {
    hasRoom: (id: string, bytes: number): boolean => (heldById.get(id) ?? 0) + bytes <= maxBytes && totalBytes + bytes <= maxTotalBytes,
    add(id: string, bytes: number): void {
      totalBytes += bytes;
      const ownBytes = (heldById.get(id) ?? 0) + bytes;
      if (ownBytes > 0) heldById.set(id, ownBytes);
      else heldById.delete(id);
    },
  };
}
