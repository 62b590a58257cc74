/**
 * Holds back the opening of a stream for a moment, or until its content starts. Vendors only notice some failures after
 * opening the response, e.g. that a prompt is too long on `/v1/responses`. As long as the caller hasn't received
 * anything, we can still try another model.
 */
import { withTimeout } from '../core/time-limit.ts';
import type { ChunkReader, StreamChunk, StreamEnd } from './stream.ts';

export interface OpenedStream {
  readonly held: StreamChunk[];
  readonly end: StreamEnd | null;
}

/**
 * Vendors report most early failures almost immediately. If we waited any longer, a model that thinks for a while would
 * seem to be silent.
 */
const maxHoldMs = 1_000;
/**
 * The largest openings contain a copy of the request, e.g. on `/v1/responses`. Without a limit, a vendor that only
 * sends openings could fill up our memory.
 */
const maxHeldBytes = 4 * 1024 * 1024;

/**
 * Holds back the opening of a stream. `first` is the first chunk from `relay`. If `isLimited` is true, the stream has
 * its own timeout for the first content, so we hold the opening until there's content and not just for `maxHoldMs`.
 * Rejects if `relay` throws.
 */
export async function holdOpening(relay: ChunkReader, first: StreamChunk, isLimited = false): Promise<OpenedStream> {
  const held = [first];
  let heldBytes = first.bytes.length;
  let isLate = false;
  const readContent = async (): Promise<StreamEnd | null> => {
    while (!isLate && held.at(-1)?.isOpening === true && heldBytes < maxHeldBytes) {
      const step = relay.read();
      if (step === null) await relay.ready();
      else if (step.kind !== 'chunk') return step;
      else {
        held.push(step);
        heldBytes += step.bytes.length;
      }
    }
    return null;
  };
  if (isLimited) return { held, end: await readContent() };
  const end = await withTimeout(readContent(), maxHoldMs, () => {
    isLate = true;
    return null;
  });
  return { held, end };
}
