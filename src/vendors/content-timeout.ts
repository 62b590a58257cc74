/**
 * Aborts a request if the vendor takes too long to send any content. Keep-alives and empty openings don't count as
 * content.
 */
import { VendorError } from '../core/errors.ts';

export interface ContentTimeout {
  /** Aborts after the timeout, or when the caller's signal aborts. */
  readonly signal: AbortSignal;
  /** Returns the timeout error if the timeout caused `error`, otherwise `error` itself. */
  explain(error: unknown): unknown;
  /** Ends the timeout. Call this when the first content has arrived, or when the request has failed. */
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
