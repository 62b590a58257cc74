/**
 * Runs `gateway usage reprice` against a service. A key was charged by a wrong price, and the command corrects this.
 */
import { describe, expect, test } from '@jest/globals';
import { runCommand } from '../../src/cli/commands.ts';
import { countersIn } from '../ceilings/quota-harness.ts';
import { jsonOf, shareGateway } from '../support/gateway.ts';

interface Run {
  readonly status: number;
  readonly written: string;
  readonly errors: string;
}

async function run(url: string, ...args: string[]): Promise<Run> {
  let [written, errors] = ['', ''];
  const environment = { GATEWAY_ADMIN_TOKEN: 'test-admin-token-0123456789' };
  const status = await runCommand([...args, '--url', url], environment, {
    write: (text) => {
      written += text;
    },
    writeError: (text) => {
      errors += text;
    },
  });
  return { status, written, errors };
}

const hourMs = 3_600_000;
const chat = (model: string) => ({ model, max_tokens: 16, messages: [{ role: 'user', content: 'hi' }] });

describe('usage reprice', () => {
  const lent = shareGateway({ database: 'any' });
  const window = () => ['--from', new Date(Date.now() - hourMs).toISOString(), '--to', new Date(Date.now() + hourMs).toISOString()];

  test('lets a key make calls again after a wrong price is corrected and its calls are repriced', async () => {
    const { url, admin, withProject, database: store, app } = lent();
    const { call: callFreely, project: slug } = await withProject('typo');
    const setPrice = (input: number) => admin('PUT', '/provision/catalog', { models: { 'one/typo': { input, output: input } } });
    expect((await setPrice(200_000)).status).toBe(200);
    const { key } = await jsonOf<{ key: string }>(admin('POST', `/provision/teams/${slug}/keys`, { name: 'k', ceilings: { cost: 5 } }));
    const call = () => callFreely('/v1/chat/completions', chat('one/typo'), { authorization: `Bearer ${key}` });
    const statuses: number[] = [];
    while (statuses.at(-1) !== 429 && statuses.length < 30) {
      const response = await call();
      await response.arrayBuffer();
      statuses.push(response.status);
      // The reservation is released when the call is counted.
      await admin('GET', `/provision/teams/${slug}/calls`);
    }
    expect(statuses.at(0)).toBe(200);
    expect(statuses.at(-1)).toBe(429);

    expect((await setPrice(0.2)).status).toBe(200);
    const models = ['--models', 'one/typo'];
    const dated = await run(url, 'usage', 'reprice', ...window(), ...models);
    expect(dated.written).toMatch(/^calls changed +0$/m);
    const others = Promise.all(Array.from({ length: 30 }, async () => (await callFreely('/v1/chat/completions', chat('one/typo'))).text()));
    const now = await run(url, 'usage', 'reprice', ...window(), ...models, '--prices', 'now');
    await others;

    expect(now).toMatchObject({ status: 0, errors: '' });
    expect(now.written).toMatch(new RegExp(`^calls changed +${statuses.length - 1}$`, 'm'));
    expect(now.written).toMatch(/^price history corrected +one\/typo$/m);
    expect(now.written).toMatch(/^difference +-\$\d+\.\d+$/m);
    expect((await call()).status).toBe(200);
    const again = await run(url, 'usage', 'reprice', ...window(), ...models, '--prices', 'now', '--json');
    expect(JSON.parse(again.written)).toMatchObject({
      ...{ object: 'usage_reprice', project: null, models: ['one/typo'], prices: 'now', prices_corrected: [] },
      ...{ calls_changed: 0, attempts_changed: 0, counters_changed: 0, difference: 0 },
    });
    const { data } = await jsonOf<{ data: { cost: number; attempts: { cost: number }[] }[] }>(
      admin('GET', `/provision/teams/${slug}/calls?limit=1000`),
    );
    expect(Math.max(...data.map(({ cost }) => cost))).toBeLessThan(0.001);
    for (const { cost, attempts } of data) expect(attempts.reduce((sum, attempt) => sum + attempt.cost, 0)).toBeCloseTo(cost, 12);
    const found = await app.projects.findBySlug(slug);
    const counters = await countersIn(store, found?.id ?? '');
    expect(counters.map(({ ceiling }) => ceiling)).toContain('cost');
    for (const counter of counters) expect(counter.settled).toBe(counter.rows);
    const audit = await store.query<{ detail: object }>(
      `select outcome, project_id, detail from audit_log where action = 'usage.reprice' and detail ->> 'prices' = 'now'
          and detail ->> 'calls_changed' <> '0'`,
    );
    expect(audit).toMatchObject([{ outcome: 'ok', project_id: null, detail: { models: ['one/typo'] } }]);
  });

  test('prices calls with an unknown cost at the price that applied when they started', async () => {
    const { url, withProject, database: store } = lent();
    const projects = [await withProject('first'), await withProject('second')];
    for (const { call } of projects) await (await call('/v1/chat/completions', chat('two/echo'))).text();
    const costs = async () => {
      const rows: { cost: number | null; price_unknown: boolean }[] = [];
      for (const { admin, project } of projects) {
        const { data } = await jsonOf<{ data: typeof rows }>(admin('GET', `/provision/teams/${project}/calls`));
        rows.push(...data);
      }
      return rows;
    };
    const before = await costs();
    await store.query(`update calls set cost_nanos = null where model = 'two/echo'`);

    const { written } = await run(url, 'usage', 'reprice', ...window(), '--project', 'second');

    expect(written).toMatch(/^ {2}of unknown cost before +1$/m);
    const after = await costs();
    expect(after.map(({ price_unknown }) => price_unknown)).toEqual([true, false]);
    expect(after[1]?.cost).toBe(before[1]?.cost);
    expect(before[1]?.cost).toBeGreaterThan(0);
  });
});

describe('`usage reprice` for models priced per image, character or search', () => {
  const lent = shareGateway({ database: 'any' });

  test('recalculates the cost of image, speech and rerank calls with new prices', async () => {
    const { url, admin, withProject } = lent();
    const { call, project } = await withProject('units');
    const setPrices = async (factor: number): Promise<void> => {
      const models = {
        'one/draw': { kind: 'images', per_image: 0.5 * factor },
        'one/speak': { kind: 'speech', per_million_characters: 1_000 * factor },
        'one/rank': { kind: 'rerank', per_search: 0.25 * factor },
      };
      expect((await admin('PUT', '/provision/catalog', { models })).status).toBe(200);
    };
    const costs = async () => {
      const { data } = await jsonOf<{ data: { cost: number; attempts: { cost: number }[] }[] }>(
        admin('GET', `/provision/teams/${project}/calls`),
      );
      return data.map(({ cost, attempts }) => [cost, ...attempts.map((attempt) => attempt.cost)]);
    };
    await setPrices(1);
    for (const [path, body] of [
      ['/v1/images/generations', { model: 'one/draw', prompt: 'a tree', n: 3 }],
      ['/v1/audio/speech', { model: 'one/speak', input: 'x'.repeat(40) }],
      ['/v1/rerank', { model: 'one/rank', query: 'tea', documents: ['oolong', 'coffee'] }],
    ] as const) {
      const response = await call(path, body);
      expect([path, response.status]).toEqual([path, 200]);
      await response.arrayBuffer();
    }
    expect(await costs()).toEqual([
      [0.25, 0.25],
      [0.04, 0.04],
      [1.5, 1.5],
    ]);
    // A price of 0 can be corrected too.
    for (const factor of [0, 2]) {
      await setPrices(factor);
      const window = ['--from', new Date(Date.now() - hourMs).toISOString(), '--to', new Date(Date.now() + hourMs).toISOString()];
      const models = ['--models', 'one/draw,one/speak,one/rank'];
      const { status, written } = await run(url, 'usage', 'reprice', ...window, ...models, '--prices', 'now');
      expect(status).toBe(0);
      expect(written).toMatch(/^attempts changed +3$/m);
      expect(await costs()).toEqual([
        [0.25 * factor, 0.25 * factor],
        [0.04 * factor, 0.04 * factor],
        [1.5 * factor, 1.5 * factor],
      ]);
    }
  });
});

describe('`usage reprice` with invalid arguments', () => {
  const lent = shareGateway({ database: 'any' });

  test.each([
    [['--to', '2026-11-01'], '--from: must be a time in RFC 3339'],
    [['--from', 'yesterday', '--to', '2026-11-01'], '--from: must be a time in RFC 3339'],
    [['--from', '2026-11-02', '--to', '2026-11-01'], '--to: must be after from'],
    [['--from', '2026-11-01', '--to', '2026-11-02', '--prices', 'best'], '--prices: '],
    [['--from', '2026-11-01', '--to', '2026-11-02', '--models', 'echo'], '--models.0: must be <provider>/<model>'],
    [
      ['--from', '2026-11-01', '--to', '2026-11-02', '--prices', 'now', '--project', 'acme'],
      '--project: must be left out if prices is "now"',
    ],
    [
      ['--from', '2026-11-01', '--to', '2026-11-02', '--prices', 'now', '--models', 'one/none'],
      '--models: there is no current price for one/none',
    ],
    [['--from', '2026-11-01', '--to', '2026-11-02', '--project', 'nobody'], 'no such project'],
  ])('reports the error in %j on a single line', async (options, sentence) => {
    const { status, written, errors } = await run(lent().url, 'usage', 'reprice', ...options);
    expect([status, written]).toEqual([1, '']);
    expect(errors).toContain(`gateway: ${sentence}`);
    expect(errors.trimEnd()).not.toContain('\n');
  });

  test('changes no costs if the window contains no calls', async () => {
    expect((await run(lent().url, 'usage', 'reprice', '--help')).written).toMatch(/--prices dated [\s\S]*--prices now /);
    const { status, written } = await run(lent().url, 'usage', 'reprice', '--from', '2020-01-01', '--to', '2020-02-01');
    expect(status).toBe(0);
    expect(written).toMatch(/^calls in the window +0$/m);
  });

  test('returns 401 if calls are repriced without the admin token', async () => {
    const { url, key, admin } = lent();
    const response = await fetch(`${url}/provision/usage/reprice`, { method: 'POST', headers: { authorization: `Bearer ${key}` } });
    expect(response.status).toBe(401);
    expect((await admin('POST', '/provision/usage/reprice')).status).toBe(400);
  });
});
