/**
 * `npm run profile -- <scenario>` shows where the CPU time of a call goes. It runs a scenario of `npm run bench` with
 * V8's profiler, and prints the self and inclusive time of each module, the functions with the most self time, and the
 * CPU time of each thread.
 *
 *   npm run profile -- chat-16 [--checkout path] [--calls N] [--warm-up 60] [--functions 25] [--allocations] [--out file]
 *
 * Self time is the time in the module's own functions, and inclusive time also includes the functions that they call. A
 * module is a folder of `src`, a package, a module of Node, or the functions of V8 and Node that aren't JavaScript. The
 * profiler only sees the main thread and makes it about a fifth slower. The times of threads come from /proc. Threads
 * called `V8Worker` compile code and collect garbage. With `--allocations`, it shows the heap bytes allocated per call
 * instead.
 */
import { runProfile } from './bench/profile.js';
import { endWithError } from './launch.js';

await runProfile(process.argv.slice(2)).catch(endWithError);
process.exit();
