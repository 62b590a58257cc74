/**
 * Provides vectors for the plain table and for mem0, so that all methods work with the same vectors. For memories, we
 * take those that the gateway has stored. For questions, we call the gateway's `POST /v1/embeddings`. Vectors from
 * earlier runs are cached.
 */
import { createHash } from 'node:crypto';
import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { cacheDirectory } from '../cache.js';

const batchSize = 16;

/**
 * The prefixes that models expect before a query, by the name of the model without its provider. The local models were
 * trained with them, so the gateway's search adds them as well (src/pipeline/internal/embedder.ts).
 */
const prefixes = new Map([
  ['bge-small-en-v1.5', 'Represent this sentence for searching relevant passages: '],
  ['multilingual-e5-small-q4', 'query: '],
]);

/** @typedef {Awaited<ReturnType<typeof createEmbeddings>>} Embeddings */

/**
 * @param {object} options
 * @param {string} options.model
 * @param {(texts: string[]) => Promise<number[][]>} options.request asks the gateway for embeddings
 */
export async function createEmbeddings({ model, request }) {
  const file = join(cacheDirectory(), 'memory-benchmark', model.replaceAll(/[^\w.-]/g, '-'));
  await mkdir(dirname(file), { recursive: true });
  /** @type {Map<string, Buffer>} */
  const known = new Map();
  const lines = await readFile(file, 'utf8').catch(() => '');
  for (const line of lines.split('\n')) if (line.endsWith(';')) known.set(...parseLine(line));

  /** @param {string[]} texts @returns {Promise<number[][]>} the vectors in the order of the texts */
  const embed = async (texts) => {
    // Replace line breaks as mem0 does, so that both methods get the same vectors.
    const asked = texts.map((text) => text.replaceAll('\n', ' '));
    const missing = [...new Set(asked.filter((text) => !known.has(keyOf(text))))];
    for (let done = 0; done < missing.length; done += batchSize) {
      const batch = missing.slice(done, done + batchSize);
      const vectors = await request(batch);
      for (const [index, text] of batch.entries()) known.set(keyOf(text), toBytes(vectors[index] ?? []));
      // A line ends with a semicolon. If a process is killed while writing a line, the semicolon is missing and the
      // line is ignored.
      await appendFile(file, batch.map((text) => `${keyOf(text)} ${known.get(keyOf(text))?.toString('base64')};\n`).join(''));
    }
    return asked.map((text) => [...new Float32Array(Uint8Array.from(known.get(keyOf(text)) ?? []).buffer)]);
  };
  return {
    embed,
    /** @param {{ text: string, vector: number[] }[]} computed vectors that the gateway has computed */
    add(computed) {
      for (const { text, vector } of computed) known.set(keyOf(text.replaceAll('\n', ' ')), toBytes(vector));
    },
    prefix: prefixes.get(model.split('/').at(-1) ?? '') ?? '',
    /** Serves `embed` as an OpenAI-compatible API, because that's what mem0 calls. */
    async serve() {
      const server = createServer(async (incoming, response) => {
        try {
          const chunks = await incoming.toArray();
          const { input } = JSON.parse(Buffer.concat(chunks).toString());
          const vectors = await embed([input].flat());
          const data = vectors.map((embedding, index) => ({ object: 'embedding', index, embedding }));
          response.setHeader('content-type', 'application/json');
          response.end(JSON.stringify({ object: 'list', model, data, usage: { prompt_tokens: 0, total_tokens: 0 } }));
        } catch (error) {
          response.writeHead(400, { 'content-type': 'text/plain' });
          response.end(String(error));
        }
      });
      await new Promise((resolve) => {
        server.listen(0, '127.0.0.1', () => resolve(null));
      });
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      return { url: `http://127.0.0.1:${port}/v1`, close: () => server.close() };
    },
  };
}

/** @param {number[]} vector */
function toBytes(vector) {
  return Buffer.from(Float32Array.from(vector).buffer);
}

/** @param {string} line @returns {[string, Buffer]} */
function parseLine(line) {
  const at = line.indexOf(' ');
  return [line.slice(0, at), Buffer.from(line.slice(at + 1, -1), 'base64')];
}

/** @param {string} text */
function keyOf(text) {
  return createHash('sha256').update(text).digest('hex');
}
