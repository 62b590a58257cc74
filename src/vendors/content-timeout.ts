/** Aborts a request if the vendor hasn't sent any content in time, no matter what else it has sent. */
import { VendorError } from '../core/errors.ts';

export interface ContentTimeout {
  /** Aborts the request if the timeout passes or the caller's signal fires. */
  readonly signal: AbortSignal;
  /** Returns the timeout error if the timeout has ended the stream, or else returns `error` unchanged. */
  explain(error: unknown): unknown;
  /** Stops the timeout. Call this when the first content arrives or the request fails. */
  clear(): void;
}

export function startContentTimeout(timeoutMs: number, signal: AbortSignal | undefined): ContentTimeout {
  const controller = new AbortController();
  const late = new VendorError('timeout', 'the response had no content in time');
  const timer = setTimeout(() => controller.abort(late), timeoutMs);
  return {
    signal: signal ? AbortSignal.any([signal, controller.signal]) : controller.signal,
    explain: (error) => (controller.signal.aborted && error instanceof VendorError && error.kind === 'broken' ? late : error),
    clear: () => clearTimeout(timer),
  };
}
