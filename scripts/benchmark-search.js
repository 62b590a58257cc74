/**
 * `npm run benchmark-search`: search in 100,000 memories of 5,000 users in one project, and what recall adds to calls, with the local embedder.
 * Everything runs on this machine: the gateway (`serve`), its embedder, PostgreSQL (DATABASE_URL, or a private server), callers and a scripted
 * vendor. Prints the times of the search module with vectors of the embedder, without the time of embedding; then the times of calls at a
 * fixed rate, of which some recall, in rounds that alternate with rounds in which none does, and the CPU time per call of both.
 *
 *   npm run benchmark-search
 *
 *   --memories 100000  --subjects 5000
 *   --searches 200     of each kind
 *   --per-second 50    calls; every tenth recalls
 *   --seconds 30       of a round
 *   --rounds 3         with recall, and as many without
 *   --plan             prints the query plan too
 */
import { fileURLToPath } from 'node:url';
import { endWithError, prepare, runChild } from './launch.js';

const node = await prepare({ dev: true });
if (node === process.execPath) {
  // Imported late: an older Node cannot load TypeScript.
  const { runSearchBenchmark } = await import('./search-benchmark/run.js');
  await runSearchBenchmark(process.argv.slice(2)).catch(endWithError);
  process.exit();
}
const { code } = await runChild(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
process.exitCode = code ?? 1;
