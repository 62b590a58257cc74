import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeSync } from 'node:fs';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { createLogOutput } from '../../src/observability/log-output.ts';

const output = new URL('../../src/observability/log-output.ts', import.meta.url).href;

/**
 * Writes 400 lines of 1 KB into a pipe without a reader, reports on standard error that it continues, writes one line
 * on request, and exits when its standard input ends.
 */
const program = `
import { createLogOutput } from ${JSON.stringify(output)};
process.stdout.on('error', () => undefined);
const { write } = createLogOutput({ fd: process.stdout.fd, maxBytes: 50_000 });
let n = 0;
const turns = setInterval(() => {
  for (let line = 0; line < 20; line += 1) write(JSON.stringify({ n: n++, pad: 'x'.repeat(1_000) }) + '\\n');
  if (n < 400) return;
  clearInterval(turns);
  process.stderr.write('all written');
  process.stdin.once('data', () => write(JSON.stringify({ last: true }) + '\\n')).once('end', () => process.exit());
}, 5);
`;

test('drops log lines instead of blocking when nobody reads the pipe', async () => {
  const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', program]);
  await once(child.stderr, 'data');
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  // This is reported once writing works again. No lines are waiting after that.
  while (!text.includes('"dropped"')) await once(child.stdout, 'data');
  child.stdin.write('go on');
  while (!text.endsWith('\n') || !text.includes('"last"')) await once(child.stdout, 'data');
  child.stdin.end();
  await once(child, 'close');
  const lines: { n?: number; dropped?: number; last?: boolean }[] = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const dropped = lines.reduce((sum, line) => sum + (line.dropped ?? 0), 0);
  expect(dropped).toBeGreaterThan(0);
  expect(lines.filter(({ n }) => n !== undefined)).toHaveLength(400 - dropped);
  expect(lines.at(-1)).toEqual({ last: true });
});

test("doesn't block while the disk for logs is full", async () => {
  const child = spawn('sh', ['-c', 'exec "$0" --no-warnings --input-type=module -e "$1" > /dev/full', process.execPath, program]);
  await once(child.stderr, 'data');
  child.stdin.end('go on');
  const [status] = await once(child, 'exit');
  expect(status).toBe(0);
});

test('keeps log lines in order after writing has moved to the thread pool', async () => {
  const file = join(await mkdtemp(join(tmpdir(), 'gateway-log-')), 'log');
  const handle = await open(file, 'w');
  let writes = 0;
  const writeNow = (fd: number, bytes: Buffer): number => {
    writes += 1;
    for (const endsAt = performance.now() + 60; performance.now() < endsAt; );
    return writeSync(fd, bytes);
  };
  const { write } = createLogOutput({ fd: handle.fd, writeNow });
  for (let line = 0; line < 10; line += 1) {
    write(`${line}\n`);
    await nextTurn();
  }
  const expected = '0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n';
  while ((await readFile(file, 'utf8')).length < expected.length) await nextTurn();
  expect(await readFile(file, 'utf8')).toBe(expected);
  expect(writes).toBe(1);
  await handle.close();
  await rm(dirname(file), { recursive: true });
});

test('batches log lines into one write and writes the rest on exit', async () => {
  const collecting = `
import { writeSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createLogOutput } from ${JSON.stringify(output)};
const writes = [];
const writeNow = (fd, bytes) => writeSync(fd, bytes, 0, writes.push(bytes.toString()) && bytes.length);
const { write } = createLogOutput({ fd: process.stdout.fd, collectMs: 500, writeNow });
for (let line = 0; line < 3; line += 1) {
  write(line + '\\n');
  await nextTurn();
}
while (writes.length === 0) await nextTurn();
process.stderr.write(JSON.stringify(writes));
write('last\\n');
process.exit();
`;
  const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', collecting]);
  let [text, report] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  child.stderr.setEncoding('utf8').on('data', (part: string) => {
    report += part;
  });
  await once(child, 'close');
  expect(text).toBe('0\n1\n2\nlast\n');
  expect(JSON.parse(report)).toEqual(['0\n1\n2\n']);
});

test("doesn't listen for the exit of the process before the first log line", async () => {
  const file = join(await mkdtemp(join(tmpdir(), 'gateway-log-')), 'log');
  const handle = await open(file, 'w');
  const before = process.listenerCount('exit');
  const outputs = Array.from({ length: 12 }, () => createLogOutput({ fd: handle.fd }));
  expect(process.listenerCount('exit')).toBe(before);
  for (const line of ['first\n', 'second\n']) outputs[0]?.write(line);
  expect(process.listenerCount('exit')).toBe(before + 1);
  while ((await readFile(file, 'utf8')) !== 'first\nsecond\n') await nextTurn();
  await handle.close();
  await rm(dirname(file), { recursive: true });
});
