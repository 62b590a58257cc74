/** Tests that the image's compile cache is used, by filling one for this checkout in the same way. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { readDockerfile } from '../support/dockerfile.ts';
import { root } from '../support/gateway-process.ts';
import { run } from '../support/run.ts';

const { instructions, entrypoint } = readDockerfile();
let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gateway-compiled-'));
  const fill = instructions.find((line) => line.startsWith('RUN fill='))?.slice('RUN '.length) ?? '';
  const env = { PATH: process.env.PATH, NODE_COMPILE_CACHE: folder };
  await run('sh', ['-c', fill.replaceAll('/gateway/', `${root}/`)], { cwd: root, env });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test.each([
  ['the service', entrypoint.slice(1, -1), ['migrate'], 'src/service/service.ts'],
  ['commands', [], ['status', '--url', 'http://127.0.0.1:1'], 'src/cli/commands.ts'],
])("loads %s from the image's compile cache", (_title, flags, args, module) => {
  const env = { NODE_COMPILE_CACHE: folder, NODE_DEBUG_NATIVE: 'COMPILE_CACHE', DATABASE_URL: 'postgres://127.0.0.1:1/none' };
  const { stdout, stderr } = spawnSync(process.execPath, [...flags, join(root, 'src/main.ts'), ...args], { env, encoding: 'utf8' });
  const decisions = [...`${stdout}${stderr}`.matchAll(/V8 code cache for ESM file:\S+\/(src\/\S+) was (accepted|rejected)/g)];
  expect(new Map(decisions.map(([, file, decision]) => [file, decision])).get(module)).toBe('accepted');
});
