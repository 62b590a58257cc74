/**
 * Runs the commands in the documentation page by page, using `sh` in a folder with the files of a clone. `npx gateway`
 * runs in the test process, because starting Node for each command would take most of the time. All pages share one
 * service.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { publishAddress } from '../../src/cli/addresses.ts';
import { checkConfig } from '../../src/cli/check-config-command.ts';
import { runCommand } from '../../src/cli/commands.ts';
import { ConfigError } from '../../src/config/config.ts';
import { demoDefaults } from '../../src/config/default-catalog.ts';
import { pagesThatRun, readCommandBlocks, readCommandPages } from '../support/documented-commands.ts';
import { adminToken, shareGateway } from '../support/gateway.ts';
import { root } from '../support/gateway-process.ts';

const pages = readCommandPages().filter(({ path }) => pagesThatRun.includes(path));

/** What the output of a page has to contain, in this order. */
const outputs: Readonly<Record<string, readonly (string | RegExp)[]>> = {
  'README.md': ['sk-gw-', 'time_zone             Europe/Berlin', '1 added', 'key.rotate', 'The configuration is valid', '"spend"'],
  'docs/quick-start.md': [
    ...['data: [DONE]', '"type":"message"', '"object":"list"', '"by_source"'],
    ...['tiers.standard', 'x-gateway-model: demo/echo', /"status": 500[\s\S]*"status": 200/],
    ...['200\n200\n429\n', 'memory.item', '- Ada prefers trains to planes', '"memories":1'],
    ...['/console/sign-in/link?token=', 'The configuration is valid for gateway start'],
  ],
  'docs/memory.md': [
    ...['enabled', /only_senders +support-bot,website/, /enabled +false/, /enabled +true/, 'You said: I moved to Oslo.'],
    ...['except for flight levels', '"useful":1', '"memories":[{"item":', '"subject_memories":[{', 'You said:', '"deleted":true'],
    '"memory.erasure"',
    /cost +20/,
  ],
};

/** Settings that a page takes over from the previous page. */
const withSettings = ['docs/memory.md'];

const service = shareGateway({ database: 'any', cache: true, yaml: (vendorUrl) => JSON.stringify(demoDefaults(vendorUrl)) });
let folder = '';
let server: Server;
let key = '';

beforeAll(async () => {
  const { dataDir, url, withProject } = service();
  ({ key } = await withProject('default'));
  folder = await mkdtemp(join(tmpdir(), 'gateway-documentation-'));
  await publishAddress(dataDir, url);
  await mkdir(join(folder, 'bin'));
  await copyFile(join(root, 'gateway.example.yaml'), join(folder, 'gateway.example.yaml'));
  await writeFile(join(folder, 'prices.json'), JSON.stringify({ 'demo-model': priced }));
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      runInProcess(new URLSearchParams(Buffer.concat(chunks).toString()))
        .catch((error: unknown) => ({ status: 1, text: String(error) }))
        .then(({ status, text }) => response.writeHead(status === 0 ? 200 : 400).end(text));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : '';
  const curl = (await promisify(execFile)('sh', ['-c', 'command -v curl'])).stdout.trim();
  await writeShim(
    'npx',
    `test "$1" = gateway && shift
for argument do shift; set -- "$@" --data-urlencode "argument=$argument"; done
exec ${curl} --silent --show-error --fail-with-body --data-urlencode "environment=$(env)" --data-urlencode "folder=$PWD" "$@" http://127.0.0.1:${port}`,
  );
  // An error of the gateway has to end the page. A command that prints the status expects one.
  await writeShim(
    'curl',
    `case " $* " in *' --write-out '*) exec ${curl} "$@" ;; esac
exec ${curl} --silent --show-error --fail-with-body "$@"`,
  );
});
afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true, force: true });
});

test.each(pages.map((page) => [page.path, page] as const))('runs the commands from %s in order', async (path, page) => {
  const { dataDir, url, key: otherKey } = service();
  const values: readonly (readonly [string, string])[] = [
    ['<key>', key],
    ['sk-gw-...', key],
    ['<prefix>', otherKey.split('-')[2] ?? ''],
    ['<file>', 'prices.json'],
    ['http://127.0.0.1:8080', url],
  ];
  const script = readCommandBlocks(page)
    .filter(({ notRun }) => notRun === null)
    .map(({ at, code }) => `echo "== ${at}"\n${values.reduce((text, [placeholder, value]) => text.replaceAll(placeholder, value), code)}`)
    .join('\n');
  const { output, failed } = await runScript(script, {
    PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
    HOME: folder,
    GATEWAY_DATA_DIR: dataDir,
    GATEWAY_ADMIN_TOKEN: adminToken,
    ...(withSettings.includes(path) && { GATEWAY: url, KEY: key }),
  });
  if (failed) throw new Error(`a command of ${path} failed; the output ends with:\n${output.slice(-3_000)}`);
  const expected = outputs[path] ?? [];
  let at = 0;
  for (const part of expected) {
    const found = typeof part === 'string' ? output.indexOf(part, at) : output.slice(at).search(part) + at;
    if (found < at) throw new Error(`the output of ${path} lacks ${part} after position ${at}:\n${output}`);
    at = found + 1;
  }
  expect(expected).not.toEqual([]);
});

/** An entry of the public price table. */
const priced = { litellm_provider: 'demo', mode: 'chat', input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 };

async function writeShim(name: string, commands: string): Promise<void> {
  await writeFile(join(folder, 'bin', name), `#!/bin/sh\n${commands}\n`, { mode: 0o755 });
}

/** Runs the script, which stops at the first command that fails. */
async function runScript(script: string, env: Record<string, string>): Promise<{ output: string; failed: boolean }> {
  try {
    const { stdout, stderr } = await promisify(execFile)('sh', ['-e', '-u', '-c', script], { cwd: folder, env, timeout: 600_000 });
    return { output: stdout + stderr, failed: false };
  } catch (error) {
    if (!(error instanceof Error) || !('stdout' in error) || !('stderr' in error)) throw error;
    return { output: `${error.stdout}${error.stderr}`, failed: true };
  }
}

/** Does what `npx gateway` does, but in this process. */
async function runInProcess(form: URLSearchParams): Promise<{ status: number; text: string }> {
  const argv = form.getAll('argument').map((argument) => (argument === 'prices.json' ? join(folder, argument) : argument));
  const lines = (form.get('environment') ?? '').split('\n').map((line) => /^(\w+)=(.*)$/.exec(line)?.slice(1, 3) ?? ['', '']);
  const variables: Record<string, string> = Object.fromEntries(lines);
  // Relative paths are relative to the shell's folder.
  const file = join(folder, variables.GATEWAY_CONFIG ?? 'gateway.yaml');
  const environment = { ...variables, ...(existsSync(file) && { GATEWAY_CONFIG: file }) };
  const written: string[] = [];
  const errors: string[] = [];
  const output = { write: (part: string) => written.push(part), writeError: (part: string) => errors.push(part) };
  try {
    const status =
      argv[0] === 'check-config'
        ? await checkConfig(argv.slice(1), environment, output, async () => [])
        : await runCommand(argv, environment, output);
    return { status, text: (status === 0 ? written : errors).join('') };
  } catch (error) {
    return { status: 1, text: error instanceof ConfigError ? error.errors.join('\n') : String(error) };
  }
}
