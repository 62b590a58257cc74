/**
 * Writes two files. `docs/api/openapi.json` is the same as `GET /openapi.json`, for people who don't have a running
 * service. `src/cli/api-operations.json` is for our commands.
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
