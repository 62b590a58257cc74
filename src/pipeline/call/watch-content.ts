import { VendorError } from '../../core/errors.ts';
import type { ChunkReader } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';

/** How a wait for content ended. It's `undecided` if the caller left first, and an error if the vendor failed. */
export type WaitEnd = 'content' | 'undecided' | VendorError;

/**
 * Watches a stream that the vendor has only opened. Calls `onEnd` once, when the stream has content, breaks, or is
 * closed before either.
 */
export function watchContent(response: StreamResponse, onEnd: (end: WaitEnd) => void): StreamResponse {
  let isWaiting = true;
  const endWait = (end: WaitEnd): void => {
    if (isWaiting) onEnd(end);
    isWaiting = false;
  };
  const chunks = (): ChunkReader => {
    const inner = response.chunks();
    return {
      ...inner,
      read() {
        const step = inner.read();
        if (step?.kind === 'broken') endWait(new VendorError('broken', step.message));
        else if (step !== null && !(step.kind === 'chunk' && step.isOpening)) endWait('content');
        return step;
      },
      close() {
        endWait('undecided');
        inner.close();
      },
    };
  };
  return { ...response, chunks };
}
