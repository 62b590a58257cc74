/**
 * Implements `Durable` for `GATEWAY_TEMPORAL=off`. It has its own file so that Temporal's SDK doesn't have to be
 * loaded.
 */
export const durableOff = {
  state: () => 'off' as const,
  waitReasons: () => [],
  isPolling: () => null,
  lagMs: () => 0,
  taskQueue: () => null,
  activityWaits: { samples: () => [] },
  uiUrl: () => null,
  deleteRuns: (): Promise<never> => Promise.reject(new Error('workflow runs cannot be deleted, because GATEWAY_TEMPORAL is off')),
  reconnect: () => undefined,
  stop: () => Promise.resolve(),
};
