/**
 * Runs real clients (SDKs, frameworks, coding agents) and unknown vendors against a private service, and records the
 * results in `test/clients/record.json` and docs/clients.md. Clients are installed into the cache directory. Exits with
 * 1 if something doesn't work.
 *
 *   npm run test-clients [-- NAME ...]     only those whose name contains one of the names
 */
import { fileURLToPath } from 'node:url';
import { prepare, runChild } from './launch.js';

const names = process.argv.slice(2);
const node = await prepare({ dev: true });
if (node === process.execPath) {
  // Imported dynamically because older Node versions can't load TypeScript.
  const { recordMatrix } = await import('../test/clients/matrix.ts');
  if (!(await recordMatrix(names))) process.exitCode = 1;
} else {
  const { code } = await runChild(node, [fileURLToPath(import.meta.url), ...names]);
  process.exitCode = code ?? 1;
}
