/**
 * Runs the gateway that we measure. It's a separate process with PostgreSQL and Temporal, and we only use it through
 * its API.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import { maskCredentials } from '../../src/guardrails/credentials.ts';
import { memoryBytes } from '../bench/proc.js';
import { adminToken, createKey } from '../programs.js';
import { toExportFile } from './export-file.js';

const limit = 10;
const pollMs = 500;
const readyLimitMs = 60_000;

/** @typedef {Awaited<ReturnType<typeof startGateway>>} Gateway */
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
  await writeFile(file, stringify({ ...given, tiers: { ...given?.tiers, embed: [model] } }));
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
  // The local model is loaded in the background.
  for (const limitAt = performance.now() + readyLimitMs; ; await sleep(pollMs)) {
    const error = await embed(['text']).then(
      () => null,
      (reason) => reason,
    );
    if (error === null) break;
    if (!model.startsWith('local/') || performance.now() > limitAt) throw error;
  }
  return {
    embed,
    /** Returns the memory of the gateway and its child processes, including the embedder. */
    memoryBytes: () => memoryBytes(program.pid),
    /**
     * Imports the memories of a conversation into a project with that name.
     * @param {string} project
     * @param {import('./dataset.js').Memory[]} memories
     */
    async store(project, memories) {
      const key = await createKey(program.url, project);
      const { records } = await send('POST', `/provision/teams/${project}/memory/import`, adminToken, toExportFile(project, memories));
      /** Use the stored form of the texts, in which anything that looks like a credential is masked. */
      const sources = new Map(memories.map((memory) => [maskCredentials(memory.text), memory.sources]));
      return { project, key, sources, refused: Number(records.item?.refused ?? 0) };
    },
    /** Resolves once every stored memory has a vector. @param {(waiting: number) => void} onProgress */
    async untilEmbedded(onProgress) {
      for (;;) {
        const { rows } = await client.query(
          `select (select count(*)::integer from memory_passages where embedding_model is null) as waiting,
                  exists (select 1 from memory_embeddings where active) as active`,
        );
        if (rows[0].waiting === 0 && !rows[0].active) return;
        onProgress(rows[0].waiting);
        await sleep(pollMs);
      }
    },
    /**
     * Returns the vectors of memories that are stored as a single passage. It would take as long as the whole run to
     * compute them again.
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
     * @param {{ project: string, key: string, sources: Map<string, string[]> }} stored `sources` has the sources of
     * each text
     * @param {import('./dataset.js').Question[]} questions
     * @param {{ byText?: boolean }} [options] with `byText`, the project has no route for embeddings while the
     * questions are asked
     * @returns {Promise<Answers>}
     */
    async ask({ project, key, sources }, questions, { byText = false } = {}) {
      const settings = (/** @type {object} */ tiers) => send('PUT', `/provision/teams/${project}`, adminToken, { tiers });
      if (byText) await settings({ embed: [], 'memory-embed': [] });
      /** @type {Answers} */
      const answers = { results: [], milliseconds: [] };
      for (const { text } of questions) {
        const from = performance.now();
        const { vector, memories } = await send('POST', '/v1/memory/search', key, { query: text, limit, include: ['memories'] });
        answers.milliseconds.push(performance.now() - from);
        if (vector === byText) throw new Error(`search for "${text}": vector is ${vector}`);
        answers.results.push(memories.map((/** @type {{ item: { text: string } }} */ { item }) => sources.get(item.text) ?? []));
      }
      if (byText) await settings({});
      return answers;
    },
  };
}
