/**
 * `npm run benchmark-memory` measures how often search finds the answer to a question, and how high it ranks. We store
 * LoCoMo's memories and BEAM's messages in a gateway with PostgreSQL, with a project for each conversation, and ask the
 * questions through its API. For comparison, we store the same vectors in a plain pgvector table and in mem0, which is
 * installed into the cache directory. The results are in docs/benchmarks.md#memory.
 *
 *   npm run benchmark-memory
 *   npm run benchmark-memory -- --locomo locomo10.json --beam chats/100K    uses data that was downloaded before
 *   npm run benchmark-memory -- --model openai/text-embedding-3-small       uses that vendor's key from the environment
 *
 *   npm run benchmark-memory -- --only xquad                                asks in twelve languages
 *
 *   --only locomo   runs only LoCoMo, or only `beam`, which takes most of the time
 *   --every 4       asks only every fourth question
 *   --config file   a gateway.yaml, for models of other vendors; its `embed` tier is replaced by --model
 *   --one-project   stores all conversations in one project, each for another end user, as in a large installation
 *   --ratings       rates results, and measures how that changes the next searches
 *   --without-mem0
 *   --json file     also writes the results to a file
 *
 * We use the PostgreSQL server at DATABASE_URL, or start a private one as the tests do.
 */

import { endWithError } from './launch.js';
import { runMemoryBenchmark } from './memory-benchmark/run.js';

await runMemoryBenchmark(process.argv.slice(2)).catch(endWithError);
process.exit();
