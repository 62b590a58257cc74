/**
 * Measures operations that write, for `benchmark-scale`: admission, storing calls, repricing, erasure and cleanup. Also
 * measures how many of the nearest vectors the index finds.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { request } from 'undici';
import { dims } from './shape.js';

export const defaultRounds = 20;

/**
 * @typedef {{ title: string, times: number[], note?: string, statements?: import('./plans.js').Statement[] }} Result
 * `statements` are the statements that this process sent
 */
/**
 * @typedef {{ title: string, run: () => Promise<Result[]> }} Operation the caller adds the statements that the service sent
 * to the first result
 */
/**
 * @param {{ url: string, client: import('pg').Client, sample: Record<string, string>, checkout: string, databaseUrl: string, adminToken: string, rounds: number }} given
 * @returns {Operation[]}
 */
export function createOperations({ url, client, sample, checkout, databaseUrl, adminToken, rounds }) {
  const { project, projectId, smallProjectId, key } = sample;
  /** Reduces a number of repetitions if the user has asked for fewer rounds than the default. @param {number} count */
  const upTo = (count) => Math.min(count, Math.ceil((count * rounds) / defaultRounds));
  const send = async (
    /** @type {string} */ method,
    /** @type {string} */ path,
    /** @type {object | undefined} */ body = undefined,
    token = adminToken,
    /** @type {Record<string, string>} */ headers = {},
  ) => {
    const from = performance.now();
    const response = await request(url + path, {
      method: /** @type {'GET'} */ (method),
      headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
      headersTimeout: 600_000,
      bodyTimeout: 600_000,
    });
    const text = await response.body.text();
    return { ms: performance.now() - from, status: response.statusCode, text };
  };
  let questions = 0;
  const call = (token = key ?? '', headers = {}) => {
    questions += 1;
    return send(
      'POST',
      '/v1/chat/completions',
      { model: 'scale/mini', messages: [{ role: 'user', content: `Question ${questions}.` }] },
      token,
      headers,
    );
  };
  const repeat = async (/** @type {number} */ count, /** @type {() => Promise<{ ms: number, status: number }>} */ work) => {
    const results = [];
    for (let done = 0; done < count; done += 1) results.push(await work());
    return results;
  };
  const timesOf = (/** @type {{ ms: number }[]} */ results) => results.map(({ ms }) => ms);
  const failuresOf = (/** @type {{ status: number }[]} */ results) => {
    const failed = results.filter(({ status }) => status >= 300);
    return failed.length === 0
      ? ''
      : `${failed.length} of ${results.length} failed (${[...new Set(failed.map(({ status }) => status))].join(', ')})`;
  };
  const countStored = async () => Number((await client.query('select count(*) from calls where id >= $1', [firstId])).rows[0].count);
  const firstId = `${Date.now()
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})(.{4})$/, '$1-$2')}-7000-8000-000000000000`;
  const untilStored = async (/** @type {number} */ calls) => {
    const from = performance.now();
    while ((await countStored()) < calls && performance.now() - from < 60_000) await sleep(100);
    return performance.now() - from;
  };
  /**
   * Makes calls with the busy key, one after another, until `work` has finished.
   * @param {() => Promise<unknown>} work
   */
  const callsDuring = async (work) => {
    let isRunning = true;
    const finished = work().finally(() => {
      isRunning = false;
    });
    const results = [];
    while (isRunning || results.length < upTo(20)) results.push(await call());
    await finished;
    return results;
  };
  const fromCheckout = async (/** @type {string} */ path) => import(pathToFileURL(join(checkout, path)).href);
  /** @type {import('./plans.js').Statement[]} */
  const recorded = [];
  const openRecorded = async () => {
    const { openServerDatabase } = await fromCheckout('src/db/pool.ts');
    const database = openServerDatabase({ connectionString: databaseUrl, statementTimeoutMs: 0 });
    const record = (/** @type {any} */ queries) => ({
      query(/** @type {string} */ text, /** @type {unknown[]} */ given = []) {
        recorded.push({ text, values: /** @type {string[]} */ (given), settings: [] });
        return queries.query(text, given);
      },
    });
    return {
      ...database,
      ...record(database),
      transaction: (/** @type {any} */ work) => database.transaction((/** @type {any} */ tx) => work(record(tx))),
    };
  };

  return [
    {
      title: 'admission',
      async run() {
        await repeat(upTo(20), () => call());
        const steady = await repeat(upTo(300), () => call());
        return [{ title: 'call, counters exist', times: timesOf(steady), note: failuresOf(steady) }];
      },
    },
    {
      title: 'admission with 12 pollers',
      async run() {
        let isRunning = true;
        const polls = /** @type {{ ms: number, status: number }[]} */ ([]);
        const poll = async (/** @type {number} */ index) => {
          while (isRunning) polls.push(await send('GET', index % 2 === 0 ? '/status/peek' : '/usage/me', undefined, key));
        };
        const pollers = Promise.all(Array.from({ length: 12 }, (_, index) => poll(index)));
        const results = await repeat(upTo(100), () => call());
        isRunning = false;
        await pollers;
        return [
          { title: 'call during 12 pollers of peek and usage/me', times: timesOf(results), note: failuresOf(results) },
          { title: 'peek and usage/me, 12 at once', times: timesOf(polls), note: failuresOf(polls) },
        ];
      },
    },
    {
      title: 'admission with a new counter',
      async run() {
        const { rows } = await client.query(
          `select 'app-' || n as source from generate_series(0, 11) n
            where not exists (select 1 from limit_counters where project_id = $1 and holder = 'source' and holder_id = 'app-' || n) order by n limit 1`,
          [projectId],
        );
        const source = String(rows[0]?.source);
        const address = `/provision/teams/${project}/applications/${source}`;
        await send('PUT', address, { ceilings: { calls: 100_000_000 }, windows: { calls: 'month' } });
        const from = performance.now();
        const first = await call(key, { 'x-gateway-source': source });
        const rest = /** @type {{ ms: number, status: number }[]} */ ([]);
        /** @type {number | undefined} */
        let settled;
        while (settled === undefined && performance.now() - from < 60_000) {
          rest.push(await call(key, { 'x-gateway-source': source }));
          const counters = await client.query(
            `select settled from limit_counters where project_id = $1 and holder = 'source' and holder_id = $2`,
            [projectId, source],
          );
          settled = counters.rows[0]?.settled;
        }
        const took = performance.now() - from;
        await send('DELETE', address);
        return [
          { title: 'first call under a new ceiling of an application', times: [first.ms], note: `status ${first.status}` },
          { title: 'until the counter of the ceiling exists', times: [took], note: failuresOf(rest) || `it starts at ${settled} calls` },
        ];
      },
    },
    {
      title: 'drain under load',
      async run() {
        const before = await countStored();
        const results = /** @type {{ ms: number, status: number }[]} */ ([]);
        const from = performance.now();
        await Promise.all(Array.from({ length: 16 }, async () => results.push(...(await repeat(upTo(125), () => call())))));
        const seconds = (performance.now() - from) / 1_000;
        const lag = await untilStored(before + results.length);
        return [
          {
            title: 'call, 16 at once',
            times: timesOf(results),
            note: failuresOf(results) || `${Math.round(results.length / seconds)} calls/s`,
          },
          { title: 'until the last call is stored', times: [lag] },
        ];
      },
    },
    {
      title: 'reprice',
      async run() {
        const day = new Date(Date.now() - 3 * 86_400_000).toISOString().slice(0, 10);
        const next = new Date(Date.now() - 2 * 86_400_000).toISOString().slice(0, 10);
        let reprice = { ms: 0, status: 0, text: '' };
        const results = await callsDuring(async () => {
          reprice = await send('POST', '/provision/usage/reprice', { from: day, to: next, project });
        });
        const { calls } = reprice.status === 200 ? JSON.parse(reprice.text) : { calls: reprice.text };
        return [
          { title: 'reprice of a day', times: [reprice.ms], note: `${calls} calls` },
          { title: 'call during reprice', times: timesOf(results), note: failuresOf(results) },
        ];
      },
    },
    {
      title: 'erasure',
      async run() {
        const { rows } = await client.query(
          `select subject from memory_items where project_id = $1 and subject is not null and subject not in ('user-7') and id > $2 limit 3`,
          [projectId, sample['itemId']],
        );
        const times = [];
        const checks = [];
        const { createErasureSteps } = await fromCheckout('src/memory/erasure/erasure-steps.ts');
        const database = await openRecorded();
        const steps = createErasureSteps({ database, listLive: async () => [], deleteRuns: async () => {} });
        try {
          for (const { subject } of rows) {
            const erased = await send('DELETE', `/v1/memory/subjects/${encodeURIComponent(subject)}`, undefined, key);
            times.push(erased.ms);
            const from = performance.now();
            await steps.finish(JSON.parse(erased.text).id);
            checks.push(performance.now() - from);
          }
        } finally {
          await database.close();
        }
        return [
          { title: 'erasure of a subject', times },
          { title: 'last check of an erasure', times: checks, statements: recorded.splice(0) },
        ];
      },
    },
    {
      title: 'retention and cleanup',
      async run() {
        const { rows } = await client.query(
          'select ceil(extract(epoch from now() - last_turn_at) / 86400)::integer as days from conversations where project_id = $1 order by last_turn_at offset 1000 limit 1',
          [projectId],
        );
        await send('PUT', `/provision/teams/${project}/memory`, { delete_conversations_after_days: rows[0]?.days ?? 170 });
        const { createCleanupSteps } = await fromCheckout('src/app/cleanup.ts');
        const database = await openRecorded();
        const silent = () => {};
        const results = [];
        try {
          const steps = createCleanupSteps({
            database,
            clock: { now: () => Date.now() },
            logger: { debug: silent, info: silent, warn: silent, error: silent },
            periods: () => ({ errorRetentionMs: 30 * 86_400_000, refusedCallRetentionMs: 30 * 86_400_000 }),
          });
          for (const { name, run } of steps) {
            const times = [];
            let rowCount = 0;
            for (let count = 1; count > 0 && times.length < 200; rowCount += count) {
              const from = performance.now();
              count = await run(new AbortController().signal);
              times.push(performance.now() - from);
            }
            results.push({ title: `cleanup: ${name}`, times, note: `${rowCount} rows`, statements: recorded.splice(0) });
          }
        } finally {
          await database.close();
          await send('PUT', `/provision/teams/${project}/memory`, { delete_conversations_after_days: null });
        }
        return results;
      },
    },
    {
      title: 'search with vectors',
      async run() {
        const { createSearch } = await fromCheckout('src/memory/search/search.ts');
        const database = await openRecorded();
        const search = createSearch({ database });
        const { rows: texts } = await client.query('select text from memory_items where project_id = $1 order by id desc limit $2', [
          projectId,
          upTo(30),
        ]);
        const { rows: vectors } = await client.query(nearVectors, [upTo(queryCount)]);
        const results = [];
        try {
          for (const [name, id, subject] of [
            ['large project', projectId, null],
            ['subject of the large project', projectId, 'user-7'],
            ['small project', smallProjectId, null],
          ]) {
            const { rows: states } = await client.query('select model from memory_embeddings where project_id = $1', [id]);
            const times = [];
            for (const [index, { text }] of texts.entries()) {
              const embed = async () => ({ model: states[0]?.model, values: JSON.parse(vectors[index]?.vector) });
              const from = performance.now();
              const options = { projectId: id, embed, embedTimeoutMs: 1_000, queryTimeoutMs: 60_000 };
              await search({ query: text, subject, limit: 10, kinds: [], include: [], min_score: 0 }, options);
              times.push(performance.now() - from);
            }
            results.push({ title: `search with vectors, ${name}`, times, statements: recorded.splice(0) });
          }
        } finally {
          await database.close();
        }
        return results;
      },
    },
    {
      title: 'recall of the vector index',
      async run() {
        const { searchStatement } = await fromCheckout('src/memory/search/search-query.ts');
        const results = [];
        for (const [name, id] of [
          ['large', projectId],
          ['small', smallProjectId],
        ]) {
          const { recall, times, passages } = await measureRecall(client, searchStatement, String(id), upTo(queryCount));
          const note = `${passages} passages; ${(100 * recall).toFixed(1)} % of the exact scan`;
          results.push({ title: `nearest 10 of the ${name} project`, times, note });
        }
        return results;
      },
    },
  ];
}

const queryCount = 40;

/**
 * Creates vectors to search for. We take a stored vector and move it a little towards another one, so that it has near
 * neighbours.
 */
const nearVectors = `
  select l2_normalize(one.embedding + one.embedding + one.embedding + other.embedding)::text as vector
    from (select embedding, row_number() over () as n
            from (select embedding from memory_passages where embedding is not null and id % 9973 < 5 limit $1) as picked) one
    join (select embedding, row_number() over () as n
            from (select embedding from memory_passages where embedding is not null and id % 9967 < 5 limit $1) as picked) other
   using (n)`;

/**
 * Measures how many of the ten nearest passages the search statement finds. An exact scan tells us which ones they are.
 * @param {import('pg').Client} client
 * @param {(variant: { of: 'memories', dims: number, hasSubject: boolean, recalledOnly: boolean }) => string} searchStatement
 * @param {string} projectId
 * @param {number} count
 */
async function measureRecall(client, searchStatement, projectId, count) {
  const nearest = /with[\s\S]*?by_vector as materialized \(([\s\S]*?)\n {2}\)/.exec(
    searchStatement({ of: 'memories', dims, hasSubject: false, recalledOnly: false }),
  )?.[1];
  if (nearest === undefined) throw new Error('the search statement has no part by_vector');
  const { rows: states } = await client.query('select model from memory_embeddings where project_id = $1', [projectId]);
  const model = states[0]?.model;
  const { rows: counted } = await client.query(
    'select count(*)::integer as passages from memory_passages where project_id = $1 and embedding is not null',
    [projectId],
  );
  const { rows: queries } = await client.query(nearVectors, [count]);
  const values = (/** @type {string} */ vector) => [projectId, ...Array(7).fill(null), vector, model];
  // We only use a part of the statement, which doesn't refer to all parameters. PostgreSQL still wants to know the
  // types of the others.
  const typed = `with typed as (select $2::text, $3::text, $4::integer, $5::float8, $6::text[], $7::timestamptz[], $8::timestamptz[]) `;
  const times = [];
  let found = 0;
  let wanted = 0;
  for (const { vector } of queries) {
    await client.query('begin');
    await client.query(
      `select set_config('jit', 'off', true), set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '200', true)`,
    );
    const from = performance.now();
    const near = await client.query(
      `${typed}, near as materialized (${nearest}) select passage.id from near join memory_passages passage using (id), typed order by passage.embedding::halfvec(${dims}) <=> $9::halfvec(${dims}) limit 10`,
      values(vector),
    );
    times.push(performance.now() - from);
    await client.query(`set local enable_indexscan = off`);
    const exact = await client.query(
      `select id from memory_passages where project_id = $1::uuid and embedding_dims = ${dims} and embedding_model = '${model}' and item_id is not null
        order by embedding::halfvec(${dims}) <=> $2::halfvec(${dims}) limit 10`,
      [projectId, vector],
    );
    await client.query('rollback');
    const ids = new Set(near.rows.map(({ id }) => id));
    found += exact.rows.filter(({ id }) => ids.has(id)).length;
    wanted += exact.rows.length;
  }
  return { recall: found / wanted, times, passages: counted[0]?.passages };
}
