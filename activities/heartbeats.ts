/** Heartbeats, by which Temporal notices a dead worker before the activity's timeout. */
import { heartbeat } from '@temporalio/activity';

/** A third of the workflows' shortest heartbeat timeout. */
const heartbeatIntervalMs = 4_000;

export async function withHeartbeats<Result>(work: () => Promise<Result>): Promise<Result> {
  const timer = setInterval(() => heartbeat(), heartbeatIntervalMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
