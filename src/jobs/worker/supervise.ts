/** Keeps something running that should run for ever: whatever ends it, it is begun again, after growing pauses. */
import { setTimeout as sleep } from 'node:timers/promises';

const shortestPauseMs = 500;
const longestPauseMs = 15_000;
/** What ran for so long was well: its end begins a new count. */
const wellMs = 60_000;

/** Resolves when the signal is aborted and `run` has ended. `onFailure` is told of the first failure of each row of failures. */
export async function keepRunning(
  run: () => Promise<void>,
  { signal, onFailure }: { signal: AbortSignal; onFailure: (error: unknown) => void },
): Promise<void> {
  for (let failures = 0; !signal.aborted; ) {
    const startedAt = performance.now();
    try {
      await run();
    } catch (error) {
      if (signal.aborted) return;
      failures = performance.now() - startedAt > wellMs ? 1 : failures + 1;
      if (failures === 1) onFailure(error);
      await sleep(Math.min(longestPauseMs, shortestPauseMs * 2 ** Math.min(failures - 1, 10)), undefined, { signal }).catch(() => {}); // Rejects when stopping.
    }
  }
}
