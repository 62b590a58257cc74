/** Heartbeats: without them a worker that died would be noticed only at the activity's time limit. */
import { heartbeat } from '@temporalio/activity';

/** A third of the heartbeat timeout of the workflows. */
const heartbeatMs = 4_000;

export async function withHeartbeats<Result>(work: () => Promise<Result>): Promise<Result> {
  const beating = setInterval(() => heartbeat(), heartbeatMs);
  try {
    return await work();
  } finally {
    clearInterval(beating);
  }
}
