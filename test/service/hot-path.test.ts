/**
 * Checks what a call costs. It must not make a round trip to the database, and must parse JSON only once, for the
 * vendor's response. To count both, we wrap the database, and we replace `JSON.parse` by a function that finds its
 * caller in the stack.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Database, Queries } from '../../src/db/database.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import type { TestGateway } from '../support/gateway.ts';
import { callsOf, eventually, shareGateway, withGateway } from '../support/gateway.ts';
import { onAnyDatabase } from './both-databases.ts';

const calls = isExhaustive ? 1_000 : 200;
const concurrency = 20;
const marker = 'a marker that only callers write';

interface Statement {
  readonly text: string;
  /** The number of the transaction, or null outside of one. */
  readonly transaction: number | null;
  /** The call stack of the query or transaction. */
  readonly stack: string;
}

/** The default of ten frames isn't enough for the files that we look for in a stack. */
const { stackTraceLimit } = Error;
beforeAll(() => {
  Error.stackTraceLimit = 50;
});
afterAll(() => {
  Error.stackTraceLimit = stackTraceLimit;
});
const stackOf = (): string => new Error().stack ?? '';

/** A database that records statements and can be held, so that new statements wait until it is released. */
function watchDatabase() {
  const statements: Statement[] = [];
  let transactions = 0;
  let held: Promise<void> = Promise.resolve();

  const watch = (queries: Queries, transaction: number | null, stack: string): Queries => ({
    async query(text, values) {
      statements.push({ text: text.trim().replace(/\s+/g, ' '), transaction, stack });
      return queries.query(text, values);
    },
  });
  return {
    statements,
    wrap: (database: Database): Database => ({
      kind: database.kind,
      // We omit `onReconnect`, which would read all rows again after a lost connection, because nothing is lost here.
      listen: (channel, onPayload) => database.listen(channel, onPayload),
      runWithoutTimeout: database.runWithoutTimeout,
      close: database.close,
      async query(text, values) {
        const stack = stackOf();
        await held;
        return watch(database, null, stack).query(text, values);
      },
      async transaction(work) {
        const stack = stackOf();
        await held;
        transactions += 1;
        const number = transactions;
        return database.transaction((tx) => work(watch(tx, number, stack)));
      },
    }),
    /** Returns the function that releases the database. */
    hold(): () => void {
      const { promise, resolve } = Promise.withResolvers<void>();
      held = promise;
      return resolve;
    },
  };
}

/**
 * The clock stands still, so that no cached key or project expires. Otherwise each would be reloaded in the background
 * after 10 s.
 */
const clock = { now: (): number => startedAt };
const startedAt = Date.now();

const bodies = {
  '/v1/chat/completions': { model: 'one/echo', messages: [{ role: 'user', content: marker }], temperature: 1 },
  '/v1/messages': { model: 'three/echo', max_tokens: 500, messages: [{ role: 'user', content: marker }] },
} as const;

/** Makes `count` calls, `concurrency` at a time. Each of them has to get a complete response. */
async function makeCalls(gateway: TestGateway, path: keyof typeof bodies, { count, stream }: { count: number; stream: boolean }) {
  const body = JSON.stringify({ ...bodies[path], stream });
  let left = count;
  const work = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const response = await gateway.call(path, body);
      const text = await response.text();
      if (response.status !== 200 || !text.includes('You')) throw new Error(`answered ${response.status}: ${text}`);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
}

/** Waits until `count` calls of the project are in the database. */
async function stored({ database, project }: TestGateway, count: number): Promise<void> {
  await eventually(async () => {
    const rows = await database.query(
      'select count(*)::integer as count from calls where project_id = (select id from projects where slug = $1::text)',
      [project],
    );
    expect(rows).toEqual([{ count }]);
  });
}

/**
 * Maintenance that runs every few seconds or minutes, with or without calls: heartbeats, usage of earlier calls, keys
 * that other processes use, and leases of dead processes. On a slow machine, some of it runs during the measurement.
 */
const isUpkeep = ({ stack }: Statement): boolean =>
  /\/src\/(?:journal\/heartbeat|usage\/rollups\/upkeep|usage\/hourly-aggregates\/build|app\/warm-caches|ceilings\/abandoned-leases)\.ts/.test(
    stack,
  );

onAnyDatabase('a steady stream of calls', (database) => {
  it("doesn't query the database while it serves a call", async () => {
    const watched = watchDatabase();
    await withGateway({ database, clock, wrapDatabase: watched.wrap }, async (gateway) => {
      let made = 0;
      const make = async (count: number): Promise<void> => {
        watched.statements.length = 0;
        await makeCalls(gateway, '/v1/chat/completions', { count, stream: false });
        made += count;
        await stored(gateway, made);
      };
      const ownQueries = () => watched.statements.filter((statement) => statement.transaction === null && !isUpkeep(statement));
      await make(concurrency);
      // The notification about the new key may arrive late and cause a reload.
      await eventually(async () => {
        await make(concurrency);
        expect(ownQueries()).toEqual([]);
      });
      const from = performance.now();
      await make(calls);
      // The drain runs ten times a second.
      const passes = Math.ceil((performance.now() - from) / 100) + 1;

      expect(ownQueries()).toEqual([]);
      const statements = watched.statements.filter((statement) => !isUpkeep(statement));
      const byTransaction = Map.groupBy(statements, ({ transaction }) => transaction);
      expect(byTransaction.size).toBeLessThanOrEqual(passes + calls / 500);
      for (const batch of byTransaction.values()) {
        expect(batch.length).toBeLessThanOrEqual(20);
        expect(batch.filter(({ text }) => text.includes('insert into calls '))).toHaveLength(1);
      }
      show(`${calls} calls on ${database}: ${statements.length} statements in ${byTransaction.size} transactions, all of the drain`);
    });
  });

  it("serves calls while the database doesn't respond", async () => {
    const watched = watchDatabase();
    await withGateway({ database, clock, wrapDatabase: watched.wrap }, async (gateway) => {
      for (const path of ['/v1/chat/completions', '/v1/messages'] as const)
        await makeCalls(gateway, path, { count: concurrency, stream: false });
      await stored(gateway, 2 * concurrency);
      const release = watched.hold();
      for (const path of ['/v1/chat/completions', '/v1/messages'] as const)
        for (const stream of [false, true]) await makeCalls(gateway, path, { count: calls / 4, stream });
      release();
      await stored(gateway, 2 * concurrency + calls);
      expect(await callsOf(gateway, '?limit=1')).toMatchObject([{ outcome: 'ok' }]);
    });
  });
});

interface Parse {
  readonly text: string;
  /** The part of the process that parsed it. */
  readonly place: 'vendor' | 'drain' | 'call';
}

const ownParse = JSON.parse;

/** Records every `JSON.parse` until `stop`. */
function watchParsing(): { parses: Parse[]; stop(): void } {
  const parses: Parse[] = [];
  JSON.parse = (...given: [text: string, ...unknown[]]): unknown => {
    const stack = new Error().stack ?? '';
    // The database clients parse `jsonb` columns, e.g. when a project is loaded again after a late notification.
    const place = /\/(src\/demo-vendor|scripted-vendor)\//.test(stack)
      ? 'vendor'
      : /\/src\/(journal|memory|usage|db)\/|\/node_modules\/(?:@electric-sql|pg)\//.test(stack)
        ? 'drain'
        : 'call';
    parses.push({ text: given[0], place });
    return Reflect.apply(ownParse, JSON, given);
  };
  return {
    parses,
    stop() {
      JSON.parse = ownParse;
    },
  };
}

afterEach(() => {
  JSON.parse = ownParse;
});

describe('JSON parsing', () => {
  const shared = shareGateway({ database: 'any', clock });

  it.each([
    ['/v1/chat/completions', 'chat', '{"id":"chatcmpl-'],
    ['/v1/messages', 'messages', '{"id":"msg_'],
  ] as const)("parses no JSON except the vendor's response during a call on %s", async (path, name, answerStart) => {
    const gateway = await shared().withProject(`plain-${name}`);
    await makeCalls(gateway, path, { count: concurrency, stream: false });
    await stored(gateway, concurrency);
    const { parses, stop } = watchParsing();
    await makeCalls(gateway, path, { count: calls, stream: false });
    await stored(gateway, concurrency + calls);
    stop();
    const inCalls = parses.filter(({ place }) => place === 'call');
    expect(inCalls).toHaveLength(calls);
    for (const { text } of inCalls) expect(text.slice(0, answerStart.length)).toBe(answerStart);
    // The vendor and the drain parse each body, so this proves that we see and attribute other parses.
    expect(parses.filter(({ place }) => place === 'vendor').length).toBeGreaterThanOrEqual(calls);
    expect(parses.filter(({ place }) => place === 'drain').length).toBeGreaterThanOrEqual(calls);
    show(`${calls} plain calls on ${path}: ${inCalls.length} parses on their way, each of a vendor's answer`);
  });

  it.each([
    ['/v1/chat/completions', 'chat', '{"id":"chatcmpl-'],
    ['/v1/messages', 'messages', '{"type":"'],
  ] as const)('parses only the first of many similar stream events on %s', async (path, name, eventStart) => {
    const gateway = await shared().withProject(`streamed-${name}`);
    await makeCalls(gateway, path, { count: concurrency, stream: true });
    await stored(gateway, concurrency);
    const { parses, stop } = watchParsing();
    // We ask for usage, so that the caller receives every event.
    const asking = name === 'chat' ? { stream_options: { include_usage: true } } : {};
    const response = await gateway.call(path, { ...bodies[path], stream: true, ...asking });
    const events = [...(await response.text()).matchAll(/^data: (\{.*\})$/gm)].map(([, json]) => json);
    await stored(gateway, concurrency + 1);
    stop();
    const inCall = parses.filter(({ place }) => place === 'call').map(({ text }) => text);
    expect(inCall[0]).toBe(events[0]);
    expect(inCall.at(-1)).toBe(events.at(-1));
    expect(inCall.length).toBeLessThan(events.length);
    for (const text of inCall) expect(text.slice(0, eventStart.length)).toBe(eventStart);
  });
});

/** Prints a measurement on standard error. */
function show(line: string): void {
  process.stderr.write(`${line}\n`);
}
