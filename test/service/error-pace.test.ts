import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { withGateway } from '../support/gateway.ts';

/** Blocks the event loop for most of the time until it's stopped. */
function keepBusy(): { stop(): void } {
  const timer = setInterval(() => {
    for (const end = performance.now() + 8; performance.now() < end /* block the event loop */; );
  }, 10);
  return { stop: () => clearInterval(timer) };
}

test("spreads a project's error responses over time while the gateway is busy", () =>
  withGateway({ database: 'any' }, async ({ call }) => {
    const fail = () => call('/v1/chat/completions', { model: 'one/nosuch', messages: [] });
    const load = keepBusy();
    try {
      // The first two errors make the gateway measure how busy it is.
      for (let count = 0; count < 2; count += 1) {
        await wait(150);
        await (await fail()).text();
      }
      const from = performance.now();
      const statuses = await Promise.all(Array.from({ length: 40 }, async () => (await fail()).status));
      expect(performance.now() - from).toBeGreaterThan(39 * 5 - 10);
      expect(new Set(statuses)).toEqual(new Set([400]));
    } finally {
      load.stop();
    }
  }));
