/**
 * `npm run faults` causes one fault after another under a steady load. It prints a table with the failed, lost and
 * doubled calls, and the time until `/readyz`, a metric, an alert and the log have shown the fault. It starts its own
 * deployment on 127.0.0.1, with two API processes behind HAProxy, a worker, PostgreSQL, Temporal, vendors, and a
 * Prometheus with the rules in deploy/prometheus.
 *
 *   npm run faults                             causes every fault, which takes about half an hour
 *   npm run faults -- disk-full vendor-failing causes only these; scripts/faults/kinds.js lists the names
 *
 *   --scale 10            how much faster than in production Prometheus and its rules are; 1 takes more than an hour
 *   --stream-seconds 480  length of the streams that run during the rolling restart. A busy machine makes them longer, and
 *                         they have to end within 600 seconds, because then the stopping process cuts them off
 *   --json file           also writes the rows to a file
 *
 * It exits with status 1 if a promise is broken. This is the case if a call fails that shouldn't, if an answered call
 * isn't stored or is stored twice, if a stated fact isn't learned or is learned twice, if a fault doesn't show where it
 * should, or if a critical alert fires during the rolling restart.
 */
import { runFaults } from './faults/run.js';
import { endWithError } from './launch.js';

await runFaults(process.argv.slice(2)).catch(endWithError);
process.exit();
