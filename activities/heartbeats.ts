/** Sends heartbeats so that Temporal notices a dead worker without waiting for the activity to time out. */
import { heartbeat } from '@temporalio/activity';

/** Workflows give activities a heartbeat timeout of 12 seconds or more, so at least three heartbeats fit into it. */
const heartbeatIntervalMs = 4_000;

export async function withHeartbeats<Result>(work: () => Promise<Result>): Promise<Result> {
  const timer = setInterval(() => heartbeat(), heartbeatIntervalMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
