/** Restarts a task that should run until it is stopped, with backoff after each failure. */
import { backoffMs } from '../../core/backoff.ts';
import { pause } from '../../core/time-limit.ts';

const backoff = { initialMs: 500, maxMs: 15_000 };
/** A run this long resets the count of failures. */
const healthyAfterMs = 60_000;

/** Resolves when the signal is aborted and `run` has ended. Calls `onFailure` for the first of consecutive failures. */
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
