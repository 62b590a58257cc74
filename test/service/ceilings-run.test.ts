/**
 * Tests ceilings with the whole service. Covers the end of windows, reservations of running calls, and a random run
 * whose sums are checked.
 */
import { expect, test } from '@jest/globals';
import { clockAt } from '../journal/calls.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import { callsOf, defaultYaml, eventually, jsonOf, shareGateway, type TestGateway, withGateway } from '../support/gateway.ts';
import { onBothDatabases } from './both-databases.ts';

const chatPath = '/v1/chat/completions';
const chat = (changes: object = {}) => ({ model: 'two/echo', max_tokens: 16, messages: [{ role: 'user', content: 'hi' }], ...changes });
const dayMs = 86_400_000;
const randomCalls = isExhaustive ? 400 : 150;
/** Responses with a fixed number of terms. */
const lengths = [5, 20, 50, 90, 150];

/** Models need prices because of the cost ceilings. */
function yaml(vendorUrl: string, deadUrl: string): string {
  const names = ['one/echo+held', ...lengths.map((length) => `two/echo+long-${length}`)];
  return defaultYaml(vendorUrl, deadUrl).replace(
    'models:\n',
    `models:\n${names.map((name) => `  ${name}: { input: 3, output: 15 }\n`).join('')}`,
  );
}

interface Ceiling {
  readonly limit: number | null;
  readonly used: number;
  readonly reserved: number;
  readonly remaining: number | null;
  readonly resets_at: string | null;
}

interface Status {
  readonly key: { readonly ceilings: Readonly<Record<'calls' | 'cost' | 'rpm' | 'tpm', Ceiling>> };
  readonly credit: { readonly state: string; readonly spent: number };
}

async function issue({ admin, project }: TestGateway, ceilings: object, windows: object = {}): Promise<{ authorization: string }> {
  const body = { name: 'limited', ceilings, windows };
  const { key } = await jsonOf<{ key: string }>(admin('POST', `/provision/teams/${project}/keys`, body));
  return { authorization: `Bearer ${key}` };
}

/** A seeded generator that makes a run reproducible. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

onBothDatabases('ceilings through the service', (database, testOnAny) => {
  /** The clock stands still, so that the minute doesn't end during a run that counts it. */
  const gateway = shareGateway({ database, yaml, clock: clockAt(Date.now()) });

  testOnAny('keeps enforcing ceilings after the clock jumps back', async () => {
    const clock = clockAt(Date.parse('2026-11-20T22:00:00Z'));
    await withGateway({ database, clock }, async (lent) => {
      const daily = await issue(lent, { calls: 2 }, { calls: 'day' });
      const total = await issue(lent, { calls: 2 }, { calls: 'total' });
      const monthly = await issue(lent, { calls: 3 });
      let served = 0;
      const ask = async (key: { authorization: string }) => {
        const answer = await lent.call(chatPath, chat(), key);
        await answer.arrayBuffer();
        if (answer.ok) served += 1;
        return answer.status;
      };
      const callsOfKey = async (key: { authorization: string }) =>
        (await jsonOf<Status>(lent.call('/status/peek', undefined, key))).key.ceilings.calls;
      const askAll = async () => [await ask(daily), await ask(total), await ask(monthly)];
      expect([await askAll(), await askAll(), await askAll()]).toEqual([
        [200, 200, 200],
        [200, 200, 200],
        [429, 429, 200],
      ]);
      expect(await callsOfKey(daily)).toMatchObject({ used: 2, remaining: 0, resets_at: '2026-11-21T00:00:00Z' });
      expect(await callsOfKey(total)).toMatchObject({ used: 2, remaining: 0, resets_at: null });
      clock.move(dayMs / 12 - 1);
      expect(await askAll()).toEqual([429, 429, 429]);
      clock.move(1);
      expect(await callsOfKey(daily)).toMatchObject({ used: 0, remaining: 2, resets_at: '2026-11-22T00:00:00Z' });
      expect([await askAll(), await askAll(), await askAll()]).toEqual([
        [200, 429, 429],
        [200, 429, 429],
        [429, 429, 429],
      ]);
      clock.move(10 * dayMs);
      expect(await askAll()).toEqual([200, 429, 200]);
      clock.move(-60 * dayMs);
      expect(await askAll()).toEqual([200, 429, 200]);
      expect((await lent.call('/readyz')).status).toBe(200);
      await eventually(async () => expect((await callsOf(lent)).map(({ outcome }) => outcome)).toEqual(Array(served).fill('ok')));
    });
  });

  test('reports near_cap while a running call reserves most of the monthly cap', async () => {
    const lent = await gateway().withProject('near-cap');
    const credit = async () => (await jsonOf<Status>(lent.call('/status/peek'))).credit;
    await lent.admin('PUT', `/provision/teams/${lent.project}`, { monthly_cap: 0.01 });
    expect((await credit()).state).toBe('ok');
    // 620 tokens at 15 dollars per million cost 0.0093 dollars, which is more than 90 % of the cap.
    const running = lent.call(chatPath, chat({ model: 'one/echo+held', max_tokens: 620 }));
    await eventually(async () => expect((await credit()).state).toBe('near_cap'));
    await eventually(async () => expect(lent.vendor.release()).toBe(1));
    expect((await running).status).toBe(200);
    expect(await credit()).toMatchObject({ state: 'ok', spent: expect.any(Number) });
    await lent.admin('PUT', `/provision/teams/${lent.project}`, { monthly_cap: (await credit()).spent });
    expect((await credit()).state).toBe('exhausted');
    const refused = await lent.call(chatPath, chat());
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '3600']);
  });

  testOnAny(`never exceeds a cost or tpm ceiling by more than one call in ${randomCalls} random calls`, async () => {
    const lent = await gateway().withProject('random-run');
    const limits = { cost: 0.04, tpm: 9_000 };
    const key = await issue(lent, limits, { cost: 'total' });
    const random = randomFrom(11);
    const sources = ['one', 'two', 'three'];
    /** The vendor ignores `max_tokens`, and a term has at most two tokens. */
    const excess = { tokens: 300, usd: (300 * 15) / 1e6 };
    const statuses = new Map<number, number>();
    let left = randomCalls;
    const check = async () => {
      const { cost, tpm } = (await jsonOf<Status>(lent.call('/status/peek', undefined, key))).key.ceilings;
      expect(cost.used + cost.reserved).toBeLessThanOrEqual(limits.cost + excess.usd);
      expect(tpm.used + tpm.reserved).toBeLessThanOrEqual(limits.tpm + excess.tokens);
    };
    const caller = async (number: number): Promise<void> => {
      while (left > 0) {
        left -= 1;
        const isOverlong = random(25) === 0;
        const length = lengths[random(lengths.length)] ?? 0;
        const body = chat({
          model: `two/echo+long-${length}`,
          max_tokens: isOverlong ? 1 : 2 * length + random(60),
          stream: random(2) === 0,
          messages: [{ role: 'user', content: 'x'.repeat(random(200)) }],
        });
        const answer = await lent.call(chatPath, body, { ...key, 'x-gateway-source': sources[number % 3] ?? '' });
        await answer.text();
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        if (left % 5 === 0) await check();
      }
    };
    await Promise.all(Array.from({ length: 12 }, (_, number) => caller(number)));
    await check();
    const rows = await callsOf(lent, '?limit=1000');
    expect([...statuses.keys()].sort()).toEqual([200, 429]);
    expect(rows).toHaveLength(statuses.get(200) ?? 0);
    const { cost, tpm } = (await jsonOf<Status>(lent.call('/status/peek', undefined, key))).key.ceilings;
    expect([cost.reserved, tpm.reserved]).toEqual([0, 0]);
    const nanos = (usd: number): number => Math.round(usd * 1e9);
    expect(nanos(cost.used)).toBe(rows.reduce((sum, row) => sum + nanos(row.cost), 0));
    expect(nanos((await jsonOf<Status>(lent.call('/status/peek'))).credit.spent)).toBe(nanos(cost.used));
    const counted = await gateway().database.query<{ settled: number; leased: number }>(
      `select c.settled, c.leased from limit_counters c join projects p on p.id = c.project_id where p.slug = $1::text and c.ceiling = 'cost'`,
      [lent.project],
    );
    expect(counted.map(({ settled }) => settled)).toEqual([nanos(cost.used)]);
  });
});
