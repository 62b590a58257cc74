/**
 * `npm run benchmark-memory`: how often search finds the answer to a question, and how far in front. A gateway with PostgreSQL stores the memories of
 * LoCoMo and the messages of BEAM, one project for each conversation; the questions are asked through its API. The same vectors in a plain
 * table of pgvector and in mem0, which is installed into the cache directory, show what the gateway's search adds.
 * The results are in docs/benchmarks.md#memory.
 *
 *   npm run benchmark-memory
 *   npm run benchmark-memory -- --locomo locomo10.json --beam chats/100K    with data that was downloaded before
 *   npm run benchmark-memory -- --model openai/text-embedding-3-small       with the key of that vendor in the environment
 *
 *   --only locomo   or beam; BEAM takes most of the time
 *   --config file   a gateway.yaml, for models of other vendors; its tier `embed` becomes the chain of --model
 *   --without-mem0
 *   --json file     writes the results too
 *
 * PostgreSQL is DATABASE_URL, or a private server as in the tests.
 */
import { fileURLToPath } from 'node:url';
import { endWithError, prepare, runChild } from './launch.js';

const node = await prepare({ dev: true });
if (node === process.execPath) {
  // Imported late: an older Node cannot load TypeScript.
  const { runMemoryBenchmark } = await import('./memory-benchmark/run.js');
  await runMemoryBenchmark(process.argv.slice(2)).catch(endWithError);
  process.exit();
}
const { code } = await runChild(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
process.exitCode = code ?? 1;
