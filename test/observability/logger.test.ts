import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { gatewayError } from '../../src/core/errors.ts';
import { logFields } from '../../src/observability/log-fields.ts';
import { createLogger } from '../../src/observability/logger.ts';

/** Accepts any fields, to show what the logger does with them. */
type OpenLogger = Record<'debug' | 'info' | 'warn' | 'error', (fields: Readonly<Record<string, unknown>>, message: string) => void>;

function recorded(level: 'debug' | 'info' = 'info'): { logger: OpenLogger; lines: string[] } {
  const lines: string[] = [];
  return { lines, logger: createLogger({ level, destination: { write: (line) => lines.push(line) } }) };
}

test('writes one JSON object per line with time, level, fields and message', () => {
  const { logger, lines } = recorded();
  logger.info({ project: 'acme', durationMs: 12 }, 'call');
  expect(lines.length).toBe(1);
  expect(JSON.parse(lines[0] ?? '')).toEqual({
    level: 'info',
    time: expect.stringMatching(/^\d{4}-.*Z$/),
    project: 'acme',
    durationMs: 12,
    msg: 'call',
  });
});

test('skips messages below the configured log level', () => {
  const { logger, lines } = recorded();
  logger.debug({}, 'quiet');
  expect(lines).toEqual([]);
});

test("writes log fields that aren't JSON as text", () => {
  const { logger, lines } = recorded();
  const cycle: Record<string, unknown> = { tokens: 12n };
  logger.info({ ...cycle, cycle: Object.assign(cycle, { cycle }) }, 'odd');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ fields: expect.stringContaining('12n'), msg: 'odd' });
});

test('adds the number of the cluster process to each line and omits empty fields', () => {
  const lines: string[] = [];
  createLogger({ level: 'info', process: 2, destination: { write: (line) => lines.push(line) } }).info({}, 'ready');
  expect(JSON.parse(lines[0] ?? '')).toEqual({ level: 'info', time: expect.any(String), process: 2, msg: 'ready' });
});

test('logs errors with their message, code and causes', () => {
  const { logger, lines } = recorded();
  const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  logger.error({ err: new Error('no database', { cause }) }, 'failed');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    err: { message: 'no database', cause: { message: 'refused', code: 'ECONNREFUSED' } },
  });
});

test('logs each error of an aggregate error', () => {
  const { logger, lines } = recorded();
  logger.error({ err: new AggregateError([new Error('first'), new Error('second')], 'all failed') }, 'failed');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    err: { message: 'all failed', errors: [{ message: 'first' }, { message: 'second' }] },
  });
});

test('logs an error whose cause is the error itself', () => {
  const { logger, lines } = recorded();
  const err = new Error('again');
  err.cause = err;
  logger.error({ err }, 'failed');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ err: { cause: { message: 'again' } } });
});

test("redacts secrets in log fields that aren't JSON", () => {
  const { logger, lines } = recorded();
  logger.error({ count: 1n, password: secret, headers: { 'x-api-key': secret } }, 'odd');
  expect(lines[0]).not.toContain(secret);
});

const secret = 'q7Zk93hTPLmXw4Rb8VnYc2Jd';
test.each([
  ['a virtual key', `sk-gw-abcd1234-${secret}${secret}0`],
  ['a bearer token', `Bearer ${secret}`],
  ['an OpenAI key', `sk-proj-${secret}`],
  ['an Anthropic key', `sk-ant-api03-${secret}`],
  ['a Google key', `AIza${secret}`],
  ['a Groq key', `gsk_${secret}`],
  ['a personal token', `gwp_${secret}`],
  ['a header', `x-api-key: ${secret}`],
  ['JSON in a text', JSON.stringify({ api_key: secret })],
  ['a database address', `postgres://gateway:${secret}@db/gateway`],
  ['a key at the start of a line', `wrong key:\nsk-proj-${secret}`],
  ['a bearer token at the start of a line', `headers:\r\nBearer ${secret}`],
  ['a quoted value', `password: '${secret}'`],
  ['a query', `https://vendor/v1?api_key=${secret}&x=1`],
])('redacts %s in log lines', (_name, text) => {
  const { logger, lines } = recorded();
  logger.warn({ text, nested: { list: [text] }, err: new Error(text, { cause: new Error(text) }), [text]: 1 }, `said ${text}`);
  expect(lines[0]).not.toContain(secret);
  expect(lines[0]).toContain('[redacted]');
  expect(() => JSON.parse(lines[0] ?? '')).not.toThrow();
});

test("doesn't redact key prefixes, ordinary numbers or text", () => {
  const { logger, lines } = recorded();
  logger.info({ key: 'abcd1234', tokens: 123456789, token: 123456789, model: 'openai/gpt-4o-mini' }, 'sk-gw-abcd1234 answered');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    key: 'abcd1234',
    tokens: 123456789,
    token: 123456789,
    model: 'openai/gpt-4o-mini',
    msg: 'sk-gw-abcd1234 answered',
  });
});

test("doesn't redact a value just because the previous value ends with `token:`", () => {
  const { logger, lines } = recorded();
  const fields = { list: ['token:', 123456789, 'password=', [[[12345678]]]], 'secret:': 123456789 };
  logger.info(fields, 'token: ');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ ...fields, msg: 'token: ' });
});

test('writes valid JSON whatever a log field contains', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom('token', 'password', 'api_key', 'note', 'x'), fc.jsonValue()),
      fc.string(),
      (fields, message) => {
        const { logger, lines } = recorded();
        logger.info(fields, message);
        JSON.parse(lines[0] ?? '');
      },
    ),
  );
});

test('documents every log field in docs/logs.md', () => {
  const root = join(import.meta.dirname, '../..');
  const rows = Object.entries(logFields).map(([name, meaning]) => `| \`${name}\` | ${meaning} |`);
  const page = readFileSync(join(root, 'docs/logs.md'), 'utf8');
  expect(page.match(/^\| `\w+` \|.*$/gm)).toEqual(rows);
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('log-fields.ts'))
    .map((name) => readFileSync(join(root, 'src', name), 'utf8'))
    .filter((text) => /logger/i.test(text))
    .join('\n');
  expect(Object.keys(logFields).filter((name) => !new RegExp(`\\b${name}\\b`).test(sources))).toEqual([]);
});

test('prints readable log lines with the stack of an error', () => {
  const lines: string[] = [];
  const logger: OpenLogger = createLogger({ level: 'info', format: 'text', destination: { write: (line) => lines.push(line) } });
  logger.info({ url: 'http://127.0.0.1:8080', settings: ['A', 'B'], asked: 'two words' }, 'listening');
  expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d INFO {2}listening url=http:\/\/127\.0\.0\.1:8080 settings=\["A","B"\] asked="two words"\n$/);
  logger.error({ err: new Error('no database', { cause: new Error('refused') }) }, 'failed');
  expect(lines[1]).toMatch(
    /^\d\d:\d\d:\d\d ERROR failed\n {2}Error: no database\n {2}at .*\n[\s\S]* {2}caused by:\n {4}Error: refused\n {4}at /,
  );
});

test.each(['json', 'text'] as const)('shortens the long messages of errors and their causes (%s)', (format) => {
  const lines: string[] = [];
  const logger: OpenLogger = createLogger({ level: 'info', format, destination: { write: (line) => lines.push(line) } });
  const refused = gatewayError('upstream_refused', { message: `refused: ${'a'.repeat(4_000)}` });
  logger.warn({ err: new Error(`failed: ${'b'.repeat(4_000)}`, { cause: refused }) }, 'failed');
  expect(lines.join('').match(/a+…/g)?.[0].length).toBe(991);
  expect(lines.join('').match(/b+…/g)?.[0].length).toBe(992);
  expect(lines.join('')).not.toMatch(/a{992}|b{993}/);
});

test.each(['json', 'text'] as const)("doesn't cut a secret in half (%s)", (format) => {
  const lines: string[] = [];
  const logger: OpenLogger = createLogger({ level: 'info', format, destination: { write: (line) => lines.push(line) } });
  for (let length = 950; length <= 1_000; length++) {
    const err = new Error(`${'a '.repeat(length / 2)} postgres://app:hunter2-hunter2-hunter2@db/gateway ${'b '.repeat(1_000)}`);
    logger.warn({ err }, 'failed');
  }
  expect(lines.join('')).toContain('postgres://app:');
  expect(lines.join('')).not.toContain('hunter');
});

test('shortens the stack of an error whose long message was replaced', () => {
  const lines: string[] = [];
  const logger: OpenLogger = createLogger({ level: 'info', format: 'json', destination: { write: (line) => lines.push(line) } });
  const err = new Error('a'.repeat(10_000));
  expect(err.stack).toContain('aaa');
  err.message = 'short';
  logger.warn({ err }, 'failed');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ err: { stack: expect.stringMatching(/^Error: short\n {4}at .*logger\.test/) } });
});

test("doesn't print secrets or terminal escape sequences", () => {
  const lines: string[] = [];
  const logger: OpenLogger = createLogger({ level: 'info', format: 'text', destination: { write: (line) => lines.push(line) } });
  const hostile = '\u001b]0;owned\u0007\u009b31m\r\n';
  logger.warn({ reason: hostile, password: 'hunter2-hunter2', err: new Error(`${hostile}Bearer abcdef0123456789`) }, `odd ${hostile}`);
  expect(lines.join('')).not.toMatch(/hunter2|abcdef0123/);
  expect(lines.join('').replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
  expect(lines[0]?.split('\n', 1)[0]).toContain('odd \\u001b]0;owned\\u0007\\u009b31m\\u000d\\u000a reason=');
});
