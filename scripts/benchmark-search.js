/**
 * `npm run benchmark-search` measures search in one project with 100,000 memories of 5,000 users, and how much recall
 * adds to calls, with the local embedder. Everything runs on this machine: the gateway (`serve`) with its embedder,
 * PostgreSQL (DATABASE_URL or a private server), callers and a scripted vendor. First it prints the times of the search
 * module with the embedder's vectors, not including the time of embedding. Then it prints the times and the CPU time of
 * calls at a fixed rate, alternating rounds in which some calls recall with rounds in which no call does.
 *
 *   npm run benchmark-search
 *
 *   --memories 100000  --subjects 5000
 *   --searches 200     number of searches of each kind
 *   --per-second 50    rate of calls, every tenth of which recalls
 *   --seconds 30       length of a round
 *   --rounds 3         number of rounds with recall, and the same number without
 *   --plan             also prints the query plan
 */

import { endWithError } from './launch.js';
import { runSearchBenchmark } from './search-benchmark/run.js';

await runSearchBenchmark(process.argv.slice(2)).catch(endWithError);
process.exit();
