/**
 * Runs the gateway to measure as a separate process with PostgreSQL and Temporal, and only uses its API.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import { openServerDatabase } from '../../src/db/pool.ts';
import { maskCredentials } from '../../src/guardrails/credentials.ts';
import { refreshWordStatistics } from '../../src/memory/indexing/word-statistics.ts';
import { memoryBytes } from '../bench/proc.js';
import { adminToken, createKey } from '../programs.js';
import { toExportFile } from './export-file.js';

const limit = 10;
const pollMs = 500;
const readyLimitMs = 60_000;
const recallDeadlineMs = 20_000;

/** @typedef {Awaited<ReturnType<typeof startGateway>>} Gateway */
/**
 * @typedef {{ project: string, key: string, subject: string | null, sources: Map<string, string[]> }} Stored `sources`
 * has the sources of each text
 */
/**
 * @typedef {{ results: string[][][], milliseconds: number[] }} Answers `results` has the sources of each result of each
 * question
 */

/**
 * @param {object} options
 * @param {ReturnType<typeof import('../programs.js').createPrograms>} options.programs
 * @param {import('pg').Client} options.client a client of the gateway's database
 * @param {string} options.databaseUrl an empty database
 * @param {string} options.folder
 * @param {string} options.model
 * @param {string} [options.config] path of a gateway.yaml
 */
export async function startGateway({ programs, client, databaseUrl, folder, model, config }) {
  const given = config === undefined ? {} : parse(await readFile(config, 'utf8'));
  await mkdir(folder, { recursive: true });
  const file = join(folder, 'gateway.yaml');
  // Give recall more time than in production. On a busy machine it might miss its deadline, which would look like a bad
  // result.
  const memory = { ...given?.memory, recall_deadline_ms: recallDeadlineMs };
  await writeFile(file, stringify({ ...given, memory, tiers: { ...given?.tiers, embed: [model] } }));
  const env = {
    DATABASE_URL: databaseUrl,
    GATEWAY_CONFIG: file,
    GATEWAY_DATA_DIR: join(folder, 'data'),
    GATEWAY_TEMPORAL: 'on',
    GATEWAY_LOCAL_EMBEDDER: 'auto',
    LOG_LEVEL: 'error',
  };
  const program = await programs.start('start', { env });

  /** @type {(method: string, path: string, token: string, body: object | string) => Promise<any>} */
  const send = async (method, path, token, body) => {
    const [type, text] = typeof body === 'string' ? ['application/x-ndjson', body] : ['application/json', JSON.stringify(body)];
    const headers = { authorization: `Bearer ${token}`, 'content-type': type };
    const response = await fetch(`${program.url}${path}`, { method, headers, body: text });
    if (!response.ok)
      throw Object.assign(new Error(`${method} ${path}: ${response.status} ${await response.text()}`), { status: response.status });
    return response.json();
  };

  const embeddingKey = await createKey(program.url, 'vectors');
  /** @param {string[]} texts @returns {Promise<number[][]>} */
  const embed = async (texts) => {
    const { data } = await send('POST', '/v1/embeddings', embeddingKey, { model, input: texts });
    return data.map((/** @type {{ embedding: number[] }} */ { embedding }) => embedding);
  };
  // The local model may still be loading, so try again.
  for (const limitAt = performance.now() + readyLimitMs; ; await sleep(pollMs)) {
    const error = await embed(['text']).then(
      () => null,
      (reason) => reason,
    );
    if (error === null) break;
    if (!model.startsWith('local/') || performance.now() > limitAt) throw error;
  }
  /** Counts the words. The daily cleanup does this too, but possibly before all memories were imported. */
  const refreshStatistics = async () => {
    await client.query('update memory_embeddings set counted_at = null');
    const database = openServerDatabase({ connectionString: databaseUrl, statementTimeoutMs: 0 });
    const { rows } = await client.query('select project_id as id from memory_embeddings');
    for (const { id } of rows) await refreshWordStatistics(database, id, Date.now());
    await database.close();
  };
  return {
    embed,
    /** Returns the memory usage of the gateway and its child processes, one of which is the embedder. */
    memoryBytes: () => memoryBytes(program.pid),
    /**
     * Imports memories into a project, which is created if necessary. With a subject, they belong to that end user.
     * @param {string} project
     * @param {import('./dataset.js').Memory[]} memories
     * @param {string | null} subject
     */
    async store(project, memories, subject) {
      const key = await createKey(program.url, project);
      const file = toExportFile(project, memories, subject);
      const { records } = await send('POST', `/provision/teams/${project}/memory/import`, adminToken, file);
      /** The gateway masks anything in a stored text that looks like a credential, so look up the masked texts. */
      const sources = new Map(memories.map((memory) => [maskCredentials(memory.text), memory.sources]));
      return { project, key, subject, sources, refused: Number(records.item?.refused ?? 0) };
    },
    /** Resolves once all memories have a vector. @param {(waiting: number) => void} onProgress */
    async untilEmbedded(onProgress) {
      for (;;) {
        const { rows } = await client.query(
          `select (select count(*)::integer from memory_passages where embedding_model is null) as waiting,
                  exists (select 1 from memory_embeddings where active) as active`,
        );
        if (rows[0].waiting === 0 && !rows[0].active) return refreshStatistics();
        onProgress(rows[0].waiting);
        await sleep(pollMs);
      }
    },
    /**
     * Returns the gateway's vectors for memories that consist of a single passage. We reuse them, because computing
     * them again would take as long as the rest of the run.
     */
    async storedVectors() {
      const { rows } = await client.query(
        `select passage.text, passage.embedding::vector::real[] as vector
           from memory_passages passage join memory_items item on item.id = passage.item_id and item.text = passage.text`,
      );
      return /** @type {{ text: string, vector: number[] }[]} */ (rows);
    },
    /**
     * Asks the questions one after another.
     * @param {Stored} stored
     * @param {import('./dataset.js').Question[]} questions
     * @param {{ byText?: boolean }} [options] with `byText`, the project has no route for embeddings while the
     * questions are asked
     * @returns {Promise<Answers>}
     */
    async ask({ project, key, subject, sources }, questions, { byText = false } = {}) {
      const settings = (/** @type {object} */ tiers) => send('PUT', `/provision/teams/${project}`, adminToken, { tiers });
      if (byText) await settings({ embed: [], 'memory-embed': [] });
      /** @type {Answers} */
      const answers = { results: [], milliseconds: [] };
      for (const { text } of questions) {
        const from = performance.now();
        const { vector, memories } = await send('POST', '/v1/memory/search', key, { query: text, subject, limit, include: ['memories'] });
        answers.milliseconds.push(performance.now() - from);
        if (vector === byText) throw new Error(`expected the search for "${text}" to have vector: ${!byText}, but got ${vector}`);
        answers.results.push(memories.map((/** @type {{ item: { text: string } }} */ { item }) => sources.get(item.text) ?? []));
      }
      if (byText) await settings({});
      return answers;
    },
    /**
     * Like `ask`, but returns the ids of the search results, so that they can be rated.
     * @param {Stored} stored
     * @param {import('./dataset.js').Question[]} questions
     * @returns {Promise<{ id: string, sources: string[] }[][]>}
     */
    async search({ key, subject, sources }, questions) {
      const found = [];
      for (const { text } of questions) {
        const { memories } = await send('POST', '/v1/memory/search', key, { query: text, subject, limit, include: ['memories'] });
        const items = /** @type {{ item: { id: string, text: string } }[]} */ (memories);
        found.push(items.map(({ item }) => ({ id: item.id, sources: sources.get(item.text) ?? [] })));
      }
      return found;
    },
    /** @param {Stored} stored @param {number} count */
    createKeys: ({ project }, count) => Promise.all(Array.from({ length: count }, () => createKey(program.url, project))),
    /** @param {string} key @param {string} id @param {'useful' | 'wrong'} rating */
    rate: (key, id, rating) => send('POST', `/v1/memory/items/${id}/rating`, key, { rating }),
    /** Pretends that all votes came from calls of this end user. @param {string} subject */
    moveVotes: (subject) => client.query('update memory_votes set subject = $1', [subject]),
    async forgetRatings() {
      await client.query('delete from memory_votes');
      await client.query('update memory_items set ratings_useful = 0, ratings_wrong = 0 where ratings_useful + ratings_wrong > 0');
    },
    /**
     * Returns the block that recall would insert into a call, for each question.
     * @param {Stored} stored
     * @param {import('./dataset.js').Question[]} questions
     * @param {number | null} budget in tokens. Null uses the default of a project
     * @returns {Promise<import('./evidence.js').Block[]>}
     */
    async recall({ project, key, subject, sources }, questions, budget) {
      await send('PUT', `/provision/teams/${project}/memory`, adminToken, { recall_budget_tokens: budget });
      const blocks = [];
      for (const { text } of questions) {
        const { block, memories, late } = await send('POST', '/v1/memory/recall', key, { text, subject, dry_run: true });
        if (late) throw new Error(`recall for "${text}" missed its deadline`);
        const items = /** @type {{ item: { text: string } }[]} */ (memories);
        blocks.push({ text: block ?? '', sources: items.map(({ item }) => sources.get(item.text) ?? []) });
      }
      return blocks;
    },
  };
}
