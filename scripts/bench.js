/**
 * `npm run bench`: what a call costs. Callers, a scripted vendor, the floor (Express and undici that forward bytes and do nothing else) and the
 * gateway (`serve`, PostgreSQL, Temporal off, keys with four ceilings) are separate programs. Floor and gateway have one core, everything else
 * has the others. Rounds of all targets alternate; the results are medians, and ratios of the same round. Compare ratios: absolute values are
 * those of the machine and of what else runs on it.
 *
 *   npm run bench                                             every scenario
 *   npm run bench -- chat-16 stream                           some of them; the names are in scripts/bench/scenarios.js
 *   npm run bench -- chat-16 --checkout . --checkout ../old   compares checkouts (with node_modules) in the same rounds
 *
 *   npm run bench -- agents                                   all sessions of agents
 *
 *   --rounds 5
 *   --calls N      of a round; default: 10,000, less in scenarios with large or slow calls
 *   --warm-up 60   seconds of uncounted rounds for each program before a scenario
 *   --streams N    of the scenario open-streams; default: 10,000, or what the limit of open files allows
 *   --traces 0.01  also each checkout with traces of this ratio of calls
 *   --local-embedder   also each checkout with the local embedder, whose process counts too
 *   --rivals       also LiteLLM and Portkey, which are installed into the cache directory
 *   --other name,port,key,pid     also a gateway that runs already, with --vendor-port (scripts/bench/rivals.js)
 *   --json file    writes the rows too
 *
 * PostgreSQL is DATABASE_URL, or a private server as in the tests. A round ends when every call has its row and the process has nothing more to
 * do, so its CPU time includes what is done after the response. Columns: CPU µs of the process per call (all threads), of its main thread, ratio
 * to the floor, ratio to the first gateway, CPU µs of PostgreSQL, calls per second, time of a call, memory (PSS) after the last round.
 */
import { fileURLToPath } from 'node:url';
import { endWithError, prepare, runChild } from './launch.js';

const node = await prepare({ dev: true });
if (node === process.execPath) {
  // Imported late: an older Node cannot load TypeScript.
  const { runBenchmark } = await import('./bench/run.js');
  await runBenchmark(process.argv.slice(2)).catch(endWithError);
  process.exit();
}
const { code } = await runChild(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
process.exitCode = code ?? 1;
