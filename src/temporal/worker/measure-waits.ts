/** Measures how long activity tasks wait for a worker (Temporal's schedule-to-start latency). */
import { systemClock } from '../../core/time.ts';

interface ActivityContext {
  readonly info: { readonly isLocal: boolean; readonly currentAttemptScheduledTimestampMs: number };
}

/**
 * Creates an activity interceptor for a worker. Local activities aren't measured, because they start together with
 * their workflow task.
 */
export function measureWaits(onWait: (ms: number) => void) {
  return ({ info }: ActivityContext) => ({
    inbound: {
      execute<Input>(input: Input, next: (input: Input) => Promise<unknown>): Promise<unknown> {
        // The difference can be negative, because it compares the clocks of two machines.
        if (!info.isLocal) onWait(Math.max(0, systemClock.now() - info.currentAttemptScheduledTimestampMs));
        return next(input);
      },
    },
  });
}
