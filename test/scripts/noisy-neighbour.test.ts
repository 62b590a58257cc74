/**
 * Runs `npm run noisy-neighbour` for a short time. All kinds of abuse have to reach the gateway, while it continues to
 * respond to the other project's calls and the script measures how long this takes.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { isTolerable } from '../../scripts/noisy-neighbour/report.js';
import { root } from '../support/gateway-process.ts';
import { describePostgres } from '../support/postgres.ts';
import { run } from '../support/run.ts';

const limitMs = 1_800_000;

/** The status that the gateway returns to the neighbour, or null if it sends no response during the measurement. */
const statuses: Readonly<Record<string, string | null>> = {
  'large-bodies': '200',
  'slow-bodies': null,
  streams: null,
  flood: '200',
  'memory-writes': '201',
  searches: '200',
  // Or 503, because a project may only have one export at a time.
  exports: '200',
  'failing-vendor': '502',
  'hanging-vendor': null,
  'sign-ins': '401',
  rules: '429',
};

describePostgres('the noisy neighbour benchmark', () => {
  it(
    "measures the latency of a project's calls while another project abuses the gateway",
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'gateway-neighbour-test-'));
      try {
        const json = join(folder, 'rows.json');
        const short = ['--seconds', '0.2', '--rounds', '1', '--warm-up', '0', '--rate', '40', '--streams', '5', '--memories', '20'];
        const env = { ...process.env, DATABASE_URL: process.env.GATEWAY_TEST_POSTGRES_URL ?? '' };
        const program = [join(root, 'scripts', 'noisy-neighbour.js'), ...short, '--json', json];
        const said = await run(process.execPath, program, { cwd: root, env, timeoutMs: limitMs });
        expect(said).toMatch(/\| prompts of 29 MB \| \d+ \| \d+\.\d \|/);
        const rows: { kind: string; calls: number; p50: number; p99: number; usualP50: number; responses: Record<string, number> }[] =
          JSON.parse(await readFile(json, 'utf8'));
        expect(rows.map(({ kind }) => kind)).toEqual(Object.keys(statuses));
        expect(rows.some(({ responses }) => Object.keys(responses).length > 0)).toBe(true);
        for (const { kind, calls, p50, p99, usualP50, responses } of rows) {
          expect([kind, calls > 0, usualP50 > 0, p99 >= p50]).toEqual([kind, true, true, true]);
          const expected = [statuses[kind], ...(kind === 'exports' ? ['503'] : [])];
          const wrong = Object.keys(responses).filter((received) => !expected.includes(received));
          expect({ kind, wrong }).toEqual({ kind, wrong: [] });
        }
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
    limitMs,
  );
});

it.each([
  [10, 60, true],
  [10, 61, false],
  [80, 160, true],
  [80, 161, false],
  [1, 51, true],
])('decides whether latency may rise from %d ms to %d ms: %p', (usualMs, ms, expected) => {
  expect(isTolerable(usualMs, ms)).toBe(expected);
});
