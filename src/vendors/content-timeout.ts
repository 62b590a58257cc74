/**
 * Aborts a request if the vendor takes too long to send any content. Keep-alives and empty openings don't count as
 * content.
 */
import { VendorError } from '../core/errors.ts';

export function startContentTimeout(timeoutMs: number, signal: AbortSignal | undefined) {
  const controller = new AbortController();
  const late = new VendorError('timeout', 'timed out waiting for the first content of the response');
  const timer = setTimeout(() => controller.abort(late), timeoutMs);
  return {
    /** Aborts after the timeout, or when the caller's signal aborts. */
    signal: signal ? AbortSignal.any([signal, controller.signal]) : controller.signal,
    /** Returns the timeout error if `error` is just a result of the timeout. Otherwise returns `error` itself. */
    explain: (error: unknown): unknown =>
      controller.signal.aborted && error instanceof VendorError && error.kind === 'broken' ? late : error,
    /** Stops the timer. Call this when the first content has arrived, or when the request has failed. */
    clear: (): void => clearTimeout(timer),
  };
}
