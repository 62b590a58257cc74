/**
 * `npm run noisy-neighbour`: how much one project can delay another one. A project ("the other") sends ordinary calls at 70 % of what the gateway
 * can do, at fixed times, whether or not earlier ones were answered. Meanwhile its neighbour abuses the gateway in one way after the other.
 * Everything else is as in `npm run bench`: separate programs on 127.0.0.1, `serve`, PostgreSQL, one core for the gateway.
 *
 *   npm run noisy-neighbour                        every kind of abuse, about five minutes
 *   npm run noisy-neighbour -- rules large-bodies  some of them; the names are in scripts/noisy-neighbour/kinds.js
 *
 *   --seconds 8      of each measurement: the other project alone, then with its neighbour
 *   --warm-up 20     seconds before the capacity is measured
 *   --load 0.7       of the capacity
 *   --streams 2000   that the neighbour keeps open, or what the limit of open files allows
 *   --checkout .     another checkout, with its node_modules
 *   --json file      writes the rows too
 *
 * A call is timed from when it was due, so a gateway that stands still makes all calls late that were due meanwhile. A kind is "ok" when neither
 * p50 nor p99 is more than twice the usual value, or 50 ms more if that is larger, and no call of the other project failed.
 */
import { fileURLToPath } from 'node:url';
import { endWithError, prepare, runChild } from './launch.js';

const node = await prepare({ dev: true });
if (node === process.execPath) {
  // Imported late: an older Node cannot load TypeScript.
  const { runNoisyNeighbour } = await import('./noisy-neighbour/run.js');
  await runNoisyNeighbour(process.argv.slice(2)).catch(endWithError);
  process.exit();
}
const { code } = await runChild(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
process.exitCode = code ?? 1;
