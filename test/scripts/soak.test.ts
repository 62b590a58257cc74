/**
 * Runs `npm run soak` with a limited number of calls, and checks that a service under mixed load doesn't leak memory.
 */
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { growthOf, isLeak } from '../../scripts/heap.js';
import { root } from '../support/gateway-process.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { run } from '../support/run.ts';

const limitMs = 1_800_000;

it(
  "doesn't leak memory over thousands of calls",
  async () => {
    const program = [join(root, 'scripts', 'soak.js'), '--rounds', '8', '--calls', '320'];
    const database = process.env.GATEWAY_TEST_POSTGRES_URL ? await createTestDatabase() : null;
    const env = { ...process.env, DATABASE_URL: database?.url ?? '' };
    const said = await run(process.execPath, program, { cwd: root, env, timeoutMs: limitMs }).finally(() => database?.drop());
    expect(said).toMatch(/round 8: 2560 calls/);
    expect(said).toMatch(/each call left -?\d+ bytes of heap and -?\d+ bytes of buffers/);
  },
  limitMs,
);

describe('leak detection', () => {
  /**
   * Returns the measurements of a service that leaks `kept` bytes per call, warms up for two rounds, and varies by
   * `noise` bytes.
   */
  const measuresOf = (kept: number, noise: number) =>
    Array.from({ length: 8 }, (_, round) => {
      const calls = (round + 1) * 320;
      const warmUp = Math.min(round, 2) * 400_000;
      return { calls, heapBytes: 45_000_000 + warmUp + kept * calls + (round % 2) * noise, bufferBytes: 9_000_000 };
    });

  it.each([0, 20_000, 100_000])('detects a leak despite %i bytes of noise', (noise) => {
    expect(isLeak(growthOf(measuresOf(0, noise), 'heapBytes'))).toBe(false);
    expect(isLeak(growthOf(measuresOf(1_500, noise), 'heapBytes'))).toBe(true);
    expect(isLeak(growthOf(measuresOf(1_500, noise), 'bufferBytes'))).toBe(false);
  });
});
