/** Measures how long activities wait for a worker, which Temporal calls schedule-to-start latency. */
import { systemClock } from '../../core/time.ts';

interface ActivityContext {
  readonly info: { readonly isLocal: boolean; readonly currentAttemptScheduledTimestampMs: number };
}

/**
 * Creates an activity interceptor for a worker. We don't measure local activities, because they start together with
 * their workflow task.
 */
export function measureWaits(onWait: (ms: number) => void) {
  return ({ info }: ActivityContext) => ({
    inbound: {
      execute<Input>(input: Input, next: (input: Input) => Promise<unknown>): Promise<unknown> {
        // The scheduled time comes from the clock of another machine, so the difference can be negative.
        if (!info.isLocal) onWait(Math.max(0, systemClock.now() - info.currentAttemptScheduledTimestampMs));
        return next(input);
      },
    },
  });
}
