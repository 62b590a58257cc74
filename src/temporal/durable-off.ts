/**
 * Implements `Durable` for `GATEWAY_TEMPORAL=off`. It's in a file of its own so that we don't have to load Temporal's
 * SDK.
 */
export const durableOff = {
  state: () => 'off' as const,
  waitReasons: () => [],
  isPolling: () => null,
  lagMs: () => 0,
  taskQueue: () => null,
  activityWaits: { samples: () => [] },
  uiUrl: () => null,
  deleteRuns: (): Promise<never> => Promise.reject(new Error('durable work is off')),
  reconnect: () => undefined,
  stop: () => Promise.resolve(),
};
