/**
 * `npm run noisy-neighbour` measures how much one project can delay another. One project ("the other project") sends
 * ordinary calls at 70 % of the gateway's capacity. It sends them at fixed times, whether or not earlier calls have
 * been answered. Meanwhile, its neighbour abuses the gateway in one way after another. The rest of the setup is the
 * same as in `npm run bench`: separate programs on 127.0.0.1, `serve`, PostgreSQL, and one core for the gateway.
 *
 *   npm run noisy-neighbour                        runs every kind of abuse, which takes about 17 minutes
 *   npm run noisy-neighbour -- rules large-bodies  runs only these; scripts/noisy-neighbour/kinds.js lists the names
 *
 *   --seconds 30     how long to measure each kind, once without and once with the neighbour
 *   --rounds 3       the two take turns this often. Before each round, we measure the capacity again
 *   --warm-up 20     seconds of warm-up before the capacity is measured
 *   --load 0.7       share of the capacity that the other project uses
 *   --rate 4000      calls per second of the other project, instead of --load. Use this to compare two versions
 *   --streams 2000   streams that the neighbour keeps open, or fewer if the open-file limit is too low
 *   --memories 1000  memories that the neighbour has from the start
 *   --checkout .     measures another checkout, which needs its own node_modules
 *   --json file      also writes the rows to a file
 *   --trace folder   writes a table for each kind that shows, for every tenth of a second, the longest call, the longest
 *                    turn of the event loop, garbage collections, and the CPU time of all threads and programs
 *   --profile folder does the same, and also writes a CPU profile of the gateway's main thread, which Chrome's DevTools
 *                    can show. Profiling makes the gateway slower, so don't compare these times with others
 *
 * We time each call from the moment it was due, so if the gateway stalls, every call that was due in the meantime
 * counts as late. A kind is "ok" if no call of the other project failed and both p50 and p99 stayed within twice the
 * usual value or 50 ms above it, whichever is larger. If other programs use the machine, the program that times the
 * calls can be late itself. Don't trust times that aren't much longer than "timer late" (p99).
 */

import { endWithError } from './launch.js';
import { runNoisyNeighbour } from './noisy-neighbour/run.js';

await runNoisyNeighbour(process.argv.slice(2)).catch(endWithError);
process.exit();
