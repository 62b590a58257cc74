/**
 * `npm run profile -- <scenario>`: where the CPU time of a call goes. Runs a scenario of `npm run bench` with V8's profiler and prints self and
 * inclusive time of each module, the functions with the most self time, and the CPU time of each thread.
 *
 *   npm run profile -- chat-16 [--checkout path] [--calls N] [--warm-up 60] [--functions 25] [--allocations] [--out file]
 *
 * Self time is spent in the module's functions; inclusive time also in what they call. A module is a folder of `src`, a package, a module of Node,
 * or functions of V8 and Node that are not JavaScript. The profiler sees the main thread only and adds about a fifth to its time; the times of threads are from /proc.
 * Threads named `V8Worker` compile and collect garbage. `--allocations` shows the bytes of the heap that are allocated per call instead.
 */
import { fileURLToPath } from 'node:url';
import { prepare, runChild } from './launch.js';

const node = await prepare({ dev: true });
if (node === process.execPath) {
  // Imported late: an older Node cannot load TypeScript.
  const { runProfile } = await import('./bench/profile.js');
  await runProfile(process.argv.slice(2));
  process.exit();
}
const { code } = await runChild(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
process.exitCode = code ?? 1;
