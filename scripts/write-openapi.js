/**
 * Writes `docs/api/openapi.json`, a copy of `GET /openapi.json` for readers who don't have a running service, and
 * `src/cli/api-operations.json`.
 *
 *   node scripts/write-openapi.js
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { describeCommandOperations } from './command-operations.js';
import { prepare, runChild } from './launch.js';

const node = await prepare({ dev: true });
if (node === process.execPath) {
  // Imported dynamically because older Node versions can't load TypeScript.
  const { describeApi } = await import('../src/http/openapi.ts');
  const folder = new URL('../docs/api/', import.meta.url);
  await mkdir(folder, { recursive: true });
  const document = describeApi();
  await writeFile(new URL('openapi.json', folder), `${JSON.stringify(document, null, 2)}\n`);
  const operations = new URL('../src/cli/api-operations.json', import.meta.url);
  await writeFile(operations, `${JSON.stringify(describeCommandOperations(document), null, 2)}\n`);
} else {
  const { code } = await runChild(node, [fileURLToPath(import.meta.url)]);
  process.exitCode = code ?? 1;
}
