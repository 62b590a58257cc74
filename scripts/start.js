/** Implements `npm start`, which runs the whole service on this machine. Arguments after `--` are passed on. */
import { runMain } from './launch.js';

await runMain(['start', ...process.argv.slice(2)]);
