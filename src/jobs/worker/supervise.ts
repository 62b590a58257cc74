/** Restarts a task that should run until it's stopped, with backoff after each failure. */
import { backoffMs } from '../../core/backoff.ts';
import { pause } from '../../core/time-limit.ts';

const backoff = { initialMs: 500, maxMs: 15_000 };
/** If a run lasts this long, we reset the number of failures. */
const healthyAfterMs = 60_000;

/**
 * Resolves once the signal is aborted and `run` has ended. Only calls `onFailure` for the first of several consecutive
 * failures.
 */
export async function supervise(
  run: () => Promise<void>,
  { signal, onFailure }: { signal: AbortSignal; onFailure: (error: unknown) => void },
): Promise<void> {
  for (let failures = 0; !signal.aborted; ) {
    const startedAt = performance.now();
    try {
      await run();
    } catch (error) {
      if (signal.aborted) return;
      failures = performance.now() - startedAt > healthyAfterMs ? 1 : failures + 1;
      if (failures === 1) onFailure(error);
      await pause(backoffMs(failures, backoff), signal);
    }
  }
}
