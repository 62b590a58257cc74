import type { VendorError } from '../../core/errors.ts';
import { type ChunkReader, toStreamError } from '../../vendors/stream.ts';
import type { StreamResponse } from '../../vendors/text.ts';

/**
 * Says how the wait for the first content ended. `undecided` means that the caller disconnected before that. If the
 * vendor failed, this is the vendor's error.
 */
export type WaitEnd = 'content' | 'undecided' | VendorError;

/**
 * Watches a stream that doesn't have content yet. Calls `onEnd` once, when content arrives, or when the stream breaks
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
