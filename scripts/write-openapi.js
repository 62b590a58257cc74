/**
 * Writes `docs/api/openapi.json`, the copy of `GET /openapi.json` that readers find without a running service.
 *
 *   node scripts/write-openapi.js
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { describeApi } from '../src/http/openapi.ts';

const folder = new URL('../docs/api/', import.meta.url);
await mkdir(folder, { recursive: true });
await writeFile(new URL('openapi.json', folder), `${JSON.stringify(describeApi(), null, 2)}\n`);
