/**
 * `node scripts/run.js <script> [arguments]` runs a script that older Node versions can't load. Before that, it
 * installs the dependencies and Node if they're missing.
 */
import { join } from 'node:path';
import { prepare, root, runChild } from './launch.js';

const [script = '', ...args] = process.argv.slice(2);
const endWithBootstrap = new URL('end-with-bootstrap.js', import.meta.url).href;
const { code } = await runChild(await prepare({ dev: true }), ['--import', endWithBootstrap, join(root, 'scripts', script), ...args]);
process.exitCode = code ?? 1;
