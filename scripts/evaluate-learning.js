/**
 * `npm run evaluate-learning`. Starts scripts/evaluation/evaluate-learning.js, which older Node versions can't load
 * directly.
 */
import { fileURLToPath } from 'node:url';
import { prepare, runChild } from './launch.js';

const node = await prepare({ dev: false });
if (node === process.execPath) {
  await import('./evaluation/evaluate-learning.js');
} else {
  const { code } = await runChild(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
  process.exitCode = code ?? 1;
}
