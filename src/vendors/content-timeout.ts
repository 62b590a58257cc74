/** Aborts a request if the vendor takes too long to send any content. Anything else that it sends doesn't count. */
import { VendorError } from '../core/errors.ts';

export interface ContentTimeout {
  /** Aborts when the time is up, or when the caller's signal does. */
  readonly signal: AbortSignal;
  /** Returns our timeout error if it's the reason for `error`, and otherwise returns `error` itself. */
  explain(error: unknown): unknown;
  /** Call this when the first content has arrived, or when the request has failed. */
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
