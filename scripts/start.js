/** `npm start`: the whole service on this machine. Options given after `--` are passed on. */
import { runMain } from './launch.js';

await runMain(['start', ...process.argv.slice(2)]);
