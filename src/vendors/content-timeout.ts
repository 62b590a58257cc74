/** Ends a request to a vendor that has sent no content in time, whatever else it has sent. */
import { VendorError } from '../core/errors.ts';

export interface ContentTimeout {
  /** Ends the request: aborted by the timeout, or by the caller's signal. */
  readonly signal: AbortSignal;
  /** Returns `error`, or that of the timeout if it broke the stream off. */
  explain(error: unknown): unknown;
  /** Call when there is content, or the request has failed. */
  clear(): void;
}

export function startContentTimeout(timeoutMs: number, signal: AbortSignal | undefined): ContentTimeout {
  const controller = new AbortController();
  const late = new VendorError('timeout', 'no content of the response in time');
  const timer = setTimeout(() => controller.abort(late), timeoutMs);
  return {
    signal: signal ? AbortSignal.any([signal, controller.signal]) : controller.signal,
    explain: (error) => (controller.signal.aborted && error instanceof VendorError && error.kind === 'broken' ? late : error),
    clear: () => clearTimeout(timer),
  };
}
