/**
 * `npm run benchmark-memory` measures how often search finds the answer to a question, and how high it ranks. A gateway
 * with PostgreSQL stores the memories of LoCoMo and the messages of BEAM, with one project per conversation, and is
 * asked the questions through its API. For comparison, the same vectors are stored in a plain pgvector table and in
 * mem0, which is installed into the cache directory. The results are in docs/benchmarks.md#memory.
 *
 *   npm run benchmark-memory
 *   npm run benchmark-memory -- --locomo locomo10.json --beam chats/100K    uses data that was downloaded before
 *   npm run benchmark-memory -- --model openai/text-embedding-3-small       uses that vendor's key from the environment
 *
 *   --only locomo   runs only LoCoMo, or only `beam`, which takes most of the time
 *   --config file   a gateway.yaml, for models of other vendors; its tier `embed` becomes the chain of --model
 *   --without-mem0
 *   --json file     also writes the results to a file
 *
 * We use the PostgreSQL at DATABASE_URL, or a private server like in the tests.
 */
import { fileURLToPath } from 'node:url';
import { endWithError, prepare, runChild } from './launch.js';

const node = await prepare({ dev: true });
if (node === process.execPath) {
  // Imported dynamically because older Node versions can't load TypeScript.
  const { runMemoryBenchmark } = await import('./memory-benchmark/run.js');
  await runMemoryBenchmark(process.argv.slice(2)).catch(endWithError);
  process.exit();
}
const { code } = await runChild(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
process.exitCode = code ?? 1;
