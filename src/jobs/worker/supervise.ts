/** Keeps something running that should run for ever: whatever ends it, it is begun again, after growing pauses. */
import { setTimeout as sleep } from 'node:timers/promises';

const initialBackoffMs = 500;
const maxBackoffMs = 15_000;
/** What ran for so long was well: its end begins a new count. */
const healthyAfterMs = 60_000;

/** Resolves when the signal is aborted and `run` has ended. `onFailure` is told of the first failure of each row of failures. */
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
      await sleep(Math.min(maxBackoffMs, initialBackoffMs * 2 ** Math.min(failures - 1, 10)), undefined, { signal }).catch(() => {}); // Rejects when stopping.
    }
  }
}
