/** Durable work that is off (`GATEWAY_TEMPORAL=off`). Apart from `durable.ts`, which loads Temporal's SDK. */
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
