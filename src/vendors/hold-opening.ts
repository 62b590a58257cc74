/**
 * Holds the opening of a stream back until its content begins, by default only for a moment. Vendors report some
 * failures only after they have opened the response, such as a prompt that is too long on `/v1/responses`, and until the
 * caller has received something we can try another model.
 */
import { withTimeout } from '../core/time-limit.ts';
import type { ChunkReader, StreamChunk, StreamEnd } from './stream.ts';

export interface OpenedStream {
  readonly held: StreamChunk[];
  /** Null while the stream continues. */
  readonly end: StreamEnd | null;
}

/** Failures that vendors find before they generate anything arrive at once. A model that thinks for longer must not appear to be silent. */
const maxHoldMs = 1_000;
/** An opening repeats the request at most, as that of `/v1/responses` does; a vendor that opens for ever must not fill the memory. */
const maxHeldBytes = 4 * 1024 * 1024;

/**
 * `first` is the first chunk of `relay`. Set `isLimited` if a timeout ends the relay: the opening is then held until
 * there is content. Rejects when `relay` throws.
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
