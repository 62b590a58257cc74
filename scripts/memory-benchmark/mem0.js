/**
 * Runs mem0, which is installed into the cache directory, with the gateway's vectors. With `infer=False` it stores the
 * texts unchanged and doesn't need a model. For its keyword search it downloads two models. If that fails, it only
 * ranks by vectors.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ensurePython } from '../../test/support/python.ts';
import { cacheDirectory } from '../cache.js';
import { BootstrapError, say } from '../npm.js';
import { maxResults } from './evidence.js';

export const version = '2.2.1';
const packages = [`mem0ai[nlp]==${version}`, 'fastembed==0.9.1'];
const installLimitMs = 15 * 60_000;

const loadKeywords = `from fastembed import SparseTextEmbedding; SparseTextEmbedding(model_name='Qdrant/bm25')`;

/** @param {string} home @returns {NodeJS.ProcessEnv} */
function modelEnvironment(home) {
  return { ...process.env, FASTEMBED_CACHE_PATH: join(home, 'models') };
}

/** Installs mem0 if necessary, and returns the folder of its Python environment. */
export async function installMem0() {
  const home = join(cacheDirectory(), 'memory-benchmark', `mem0-${version}`);
  const done = join(home, 'installed');
  if (existsSync(done)) return home;
  say(`installing mem0 ${version}`);
  await rm(home, { recursive: true, force: true });
  const run = promisify(execFile);
  const limits = { timeout: installLimitMs, maxBuffer: 64 * 1024 * 1024 };
  try {
    await run(await ensurePython(), ['-m', 'venv', home]);
    await run(join(home, 'bin', 'pip'), ['install', '--quiet', ...packages], limits);
  } catch (error) {
    const { message, stderr } = /** @type {Error & { stderr?: string }} */ (error);
    const reason = (stderr?.trim() || message).split('\n').at(-1);
    throw new BootstrapError(`mem0 cannot be installed (${reason}); leave it out with --without-mem0`);
  }
  try {
    await run(join(home, 'bin', 'python'), ['-m', 'spacy', 'download', 'en_core_web_sm'], limits);
    await run(join(home, 'bin', 'python'), ['-c', loadKeywords], { ...limits, env: modelEnvironment(home) });
  } catch {
    say('mem0 runs without keyword search, because its models cannot be downloaded');
  }
  await writeFile(done, '');
  return home;
}

/**
 * Asks each question with and without the prefix that the embedding model expects before queries. mem0 doesn't know
 * about such prefixes.
 * @param {object} options
 * @param {string} options.home
 * @param {string} options.folder the folder for mem0's data
 * @param {string} options.model
 * @param {import('./dataset.js').Conversation[]} options.conversations
 * @param {import('./embeddings.js').Embeddings} options.embeddings
 * @returns {Promise<{ hasKeywords: boolean, results: Record<'plain' | 'prefixed', import('./dataset.js').Memory[][]>[] }>}
 * the results of each question of each conversation
 */
export async function askMem0({ home, folder, model, conversations, embeddings }) {
  await mkdir(folder, { recursive: true });
  const server = await embeddings.serve();
  try {
    const dimensions = (await embeddings.embed(['text']))[0]?.length;
    const input = {
      url: server.url,
      folder,
      model,
      dimensions,
      limit: maxResults,
      conversations: conversations.map(({ id, memories, questions }) => ({
        id,
        memories: memories.map(({ text }) => text),
        queries: ['', embeddings.prefix].map((prefix) => questions.map(({ text }) => prefix + text)),
      })),
    };
    /** @type {{ found: [number[][], number[][]][], hasKeywords: boolean }} */
    const { found, hasKeywords } = JSON.parse(await runPython(home, JSON.stringify(input)));
    return {
      hasKeywords,
      results: found.map(([plain, prefixed], index) => {
        const memoriesOf = (/** @type {number[][]} */ lists) =>
          lists.map((numbers) => numbers.flatMap((number) => conversations[index]?.memories[number] ?? []));
        return { plain: memoriesOf(plain), prefixed: memoriesOf(prefixed) };
      }),
    };
  } finally {
    server.close();
  }
}

/** @param {string} home @param {string} input @returns {Promise<string>} the output of the program */
async function runPython(home, input) {
  const script = fileURLToPath(new URL('search_mem0.py', import.meta.url));
  // mem0 would retry a download for a minute. If a model isn't installed by now, it can't be downloaded either.
  const env = { ...modelEnvironment(home), HF_HUB_OFFLINE: '1' };
  const child = spawn(join(home, 'bin', 'python'), [script], { stdio: 'pipe', env });
  process.once('exit', () => child.kill());
  // Ignore write errors if the process has died. Its standard error contains the reason.
  child.stdin.on('error', () => undefined).end(input);
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors = (errors + text).slice(-5_000);
  });
  const [output, [code]] = await Promise.all([child.stdout.setEncoding('utf8').toArray(), once(child, 'exit')]);
  if (code !== 0) throw new Error(`mem0 failed:\n${errors}`);
  return output.join('').trim().split('\n').at(-1) ?? '';
}
