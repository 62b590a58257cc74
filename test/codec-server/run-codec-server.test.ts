import { expect, test } from '@jest/globals';
import { readCodecServerSettings } from '../../src/codec-server/codec-server-options.ts';
import { runCodecServer } from '../../src/codec-server/run-codec-server.ts';
import { ConfigError } from '../../src/config/config.ts';
import { until } from '../support/temporal.ts';

const payloadKey = Buffer.alloc(32, 7).toString('base64');
const env = { GATEWAY_ADMIN_TOKEN: 'admin-token-of-the-test', GATEWAY_DATA_DIR: '/nonexistent', TEMPORAL_PAYLOAD_KEY: payloadKey };

async function errorsOf(args: readonly string[], environment: Readonly<Record<string, string>> = env): Promise<readonly string[]> {
  const error: unknown = await readCodecServerSettings(args, environment).then(
    () => null,
    (reason: unknown) => reason,
  );
  return error instanceof ConfigError ? error.errors : [];
}

test('needs only --ui-origin for a Temporal UI on the same machine', async () => {
  expect(await readCodecServerSettings(['--ui-origin', 'http://localhost:8233', '--ui-origin', 'http://127.0.0.1:8233/'], env)).toEqual({
    host: '127.0.0.1',
    port: 8234,
    uiOrigins: ['http://localhost:8233', 'http://127.0.0.1:8233'],
    publicUrl: null,
    adminTokens: ['admin-token-of-the-test'],
    payloadKeys: [Buffer.alloc(32, 7)],
    logLevel: 'info',
    logFormat: 'auto',
  });
});

test('reports all invalid options and variables of the codec server together', async () => {
  const args = ['--port', '80x', '--ui-origin', 'localhost:8233', '--ui-origin', 'https://temporal.example.com'];
  const errors = await errorsOf(args, { GATEWAY_CONFIG: '/nonexistent', GATEWAY_DATA_DIR: '/nonexistent', LOG_LEVEL: 'loud' });
  expect(errors.map((error) => error.split(':', 1)[0])).toEqual([
    'LOG_LEVEL',
    '--port',
    '--ui-origin',
    '--public-url',
    'TEMPORAL_PAYLOAD_KEY',
    'GATEWAY_ADMIN_TOKEN',
  ]);
});

test.each([
  ['a missing UI origin', [], /^--ui-origin: is required/],
  ['a UI origin with a path', ['--ui-origin', 'http://localhost:8233/ui'], /^--ui-origin: "http:\/\/localhost:8233\/ui" is not an origin/],
  ['a wildcard UI origin', ['--ui-origin', '*'], /^--ui-origin: "\*" is not an origin/],
  [
    'plain http on a network',
    ['--ui-origin', 'http://localhost:8233', '--public-url', 'http://codec.example.com'],
    /^--public-url: must be/,
  ],
  ['an unknown option', ['--origin', 'x'], /^Unknown option '--origin'/],
])('rejects %s', async (_case, args, expected) => {
  expect(await errorsOf(args)).toEqual([expect.stringMatching(expected)]);
});

test('the codec server prints its address in one line and shuts down when asked', async () => {
  const stop = new AbortController();
  let written = '';
  const write = (text: string): void => {
    written += text;
  };
  const args = ['--ui-origin', 'http://127.0.0.1:8233', '--port', '0'];
  const running = runCodecServer(args, { env: { ...env, LOG_LEVEL: 'silent' }, write, stopping: stop.signal });
  await until('it is up', () => written !== '');
  const url = /^Codec server: sign in at (http:\/\/127\.0\.0\.1:\d+), .*\n$/.exec(written)?.[1] ?? '';
  expect(await (await fetch(url)).text()).toContain('Admin token');

  const { port } = new URL(url);
  await expect(runCodecServer([...args, '--port', port], { env, write, stopping: stop.signal })).rejects.toThrow(
    /cannot listen on .*EADDRINUSE/,
  );
  stop.abort();
  await running;
  await expect(fetch(url)).rejects.toThrow();
});
