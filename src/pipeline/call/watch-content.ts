import type { VendorError } from '../../core/errors.ts';
import { type ChunkReader, toStreamError } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';

/**
 * Says how the wait for a stream's first content ended. If the stream broke, this is the vendor's error. If the caller
 * disconnected first, it's `undecided`.
 */
export type WaitEnd = 'content' | 'undecided' | VendorError;

/**
 * Watches a stream for its first content. Calls `onEnd` exactly once: when content arrives, or when the stream breaks
 * or is closed before that.
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
        if (step?.kind === 'broken') endWait(toStreamError(step));
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
