/**
 * Holds back the opening of a stream until its content starts, by default only for a moment. Vendors report some
 * failures only after they have opened the response, e.g. a prompt that is too long on `/v1/responses`. As long as the
 * caller hasn't received anything, we can still try another model.
 */
import { withTimeout } from '../core/time-limit.ts';
import type { ChunkReader, StreamChunk, StreamEnd } from './stream.ts';

export interface OpenedStream {
  readonly held: StreamChunk[];
  /** Set if the stream has already ended. */
  readonly end: StreamEnd | null;
}

/**
 * If a vendor finds a problem before generating anything, the error arrives almost immediately. Waiting longer would
 * make a model that thinks for a while look silent.
 */
const maxHoldMs = 1_000;
/**
 * An opening contains at most a copy of the request, e.g. on `/v1/responses`. The limit protects our memory from a
 * vendor that never stops sending openings.
 */
const maxHeldBytes = 4 * 1024 * 1024;

/**
 * Holds back the opening of a stream. `first` is the first chunk that `relay` has returned. If another timeout applies
 * to the stream, set `isLimited`, and the opening is held until there is content. Rejects if `relay` throws.
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
