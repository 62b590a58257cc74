/**
 * `npm run bench` measures what a call costs. It runs callers, a scripted vendor, the floor (Express and undici, which
 * only forward bytes) and the gateway (`serve` with PostgreSQL, without Temporal, and with keys that have four
 * ceilings) as separate programs. The floor and the gateway share one core, and everything else runs on the other
 * cores. The targets take turns, one round each. The results are medians, and ratios of values from the same round.
 * Compare the ratios, because absolute values depend on the machine and on what else is running there.
 *
 *   npm run bench                                             runs every scenario
 *   npm run bench -- chat-16 stream                           runs only these (see scripts/bench/scenarios.js)
 *   npm run bench -- chat-16 --checkout . --checkout ../old   compares checkouts (with node_modules) in the same rounds
 *
 *   npm run bench -- agents                                   runs all scenarios with agent sessions
 *
 *   --rounds 5
 *   --starts 1     how often to start all programs. The result is calculated from the rounds of all starts
 *   --calls N      calls per round; default: 10,000, or fewer in scenarios with large or slow calls
 *   --warm-up 60   seconds of warm-up for each program before a scenario
 *   --streams N    streams in the open-streams scenario; default: 10,000, or fewer if the open-file limit is too low
 *   --traces 0.01  also measures each checkout while it traces this ratio of calls
 *   --local-embedder   also measures each checkout with the local embedder, and counts the embedder's process too
 *   --rivals       also measures LiteLLM and Portkey, which are installed into the cache directory
 *   --other name,port,key,pid     also measures a running gateway, with --vendor-port (scripts/bench/rivals.js)
 *   --json file    also writes the rows to a file
 *
 * We use the PostgreSQL server at DATABASE_URL, or start a private one as the tests do. A round only ends when all
 * calls have been stored and the process is idle, so the CPU time includes the work after the response. For each call,
 * the columns show the CPU time of the process and of its main thread in µs, the ratio to the floor and to the first
 * gateway, the CPU time of PostgreSQL in µs, and the duration. There are also the calls per second, and the memory
 * (PSS) after the last round.
 */
import { runBenchmark } from './bench/run.js';
import { endWithError } from './launch.js';

await runBenchmark(process.argv.slice(2)).catch(endWithError);
process.exit();
