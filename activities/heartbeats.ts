/** Sends heartbeats, so that Temporal notices a dead worker before the activity times out. */
import { heartbeat } from '@temporalio/activity';

/** A third of the shortest heartbeat timeout in the workflows. */
const heartbeatIntervalMs = 4_000;

export async function withHeartbeats<Result>(work: () => Promise<Result>): Promise<Result> {
  const timer = setInterval(() => heartbeat(), heartbeatIntervalMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
