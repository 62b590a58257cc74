/**
 * `npm run bench` measures what a call costs. It runs callers, a scripted vendor, the floor (Express and undici, which
 * only forward bytes) and the gateway (`serve` with PostgreSQL, Temporal off, keys with four ceilings) as separate
 * programs. The floor and the gateway get one core, and everything else shares the others. The rounds of all targets
 * alternate. The results are medians, and ratios of values from the same round. Compare the ratios, because absolute
 * values depend on the machine and on what else runs on it.
 *
 *   npm run bench                                             runs every scenario
 *   npm run bench -- chat-16 stream                           runs only these (see scripts/bench/scenarios.js)
 *   npm run bench -- chat-16 --checkout . --checkout ../old   compares checkouts (with node_modules) in the same rounds
 *
 *   npm run bench -- agents                                   runs all scenarios with agent sessions
 *
 *   --rounds 5
 *   --calls N      calls per round; default: 10,000, or less in scenarios with large or slow calls
 *   --warm-up 60   seconds of warm-up for each program before a scenario
 *   --streams N    streams of the scenario open-streams; default: 10,000, or fewer if the open-file limit is too low
 *   --traces 0.01  also measures each checkout with traces of this ratio of calls
 *   --local-embedder   also measures each checkout with the local embedder, and counts the embedder's process too
 *   --rivals       also measures LiteLLM and Portkey, which are installed into the cache directory
 *   --other name,port,key,pid     also measures a running gateway, with --vendor-port (scripts/bench/rivals.js)
 *   --json file    also writes the rows to a file
 *
 * We use the PostgreSQL at DATABASE_URL, or a private server like in the tests. A round only ends once every call has
 * been stored and the process is idle, so its CPU time includes the work after the response. The columns are CPU µs of
 * the process per call (all threads), CPU µs of its main thread, ratio to the floor, ratio to the first gateway, CPU µs
 * of PostgreSQL, calls per second, duration of a call, and memory (PSS) after the last round.
 */
import { fileURLToPath } from 'node:url';
import { endWithError, prepare, runChild } from './launch.js';

const node = await prepare({ dev: true });
if (node === process.execPath) {
  // Imported dynamically because older Node versions can't load TypeScript.
  const { runBenchmark } = await import('./bench/run.js');
  await runBenchmark(process.argv.slice(2)).catch(endWithError);
  process.exit();
}
const { code } = await runChild(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
process.exitCode = code ?? 1;
