/** Heartbeats: without them a worker that died would be noticed only at the activity's time limit. */
import { heartbeat } from '@temporalio/activity';

/** A third of the heartbeat timeout of the workflows. */
const heartbeatIntervalMs = 4_000;

export async function withHeartbeats<Result>(work: () => Promise<Result>): Promise<Result> {
  const timer = setInterval(() => heartbeat(), heartbeatIntervalMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
