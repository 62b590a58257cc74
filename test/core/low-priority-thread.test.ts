import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { expect, test } from '@jest/globals';
import { GatewayError } from '../../src/core/errors.ts';
import { defineJob, largeBytes } from '../../src/core/low-priority-thread.ts';
import type { block, breakThread, echo, fail, readPriority, refuse } from './thread-jobs.ts';

const jobs = new URL('./thread-jobs.ts', import.meta.url).href;
const runEcho = defineJob<typeof echo<{ bytes?: Uint8Array; text: string }>>(jobs, 'echo');
const runFail = defineJob<typeof fail>(jobs, 'fail');
const runRefuse = defineJob<typeof refuse>(jobs, 'refuse');
const runBreak = defineJob<typeof breakThread>(jobs, 'breakThread');
const runReadPriority = defineJob<typeof readPriority>(jobs, 'readPriority');
const runReadPasswordPriority = defineJob<typeof readPriority>(jobs, 'readPriority', 'passwords');
const runPasswordEcho = defineJob<typeof echo<{ text: string }>>(jobs, 'echo', 'passwords');
const runBlock = defineJob<typeof block>(jobs, 'block');
/** Only Linux has thread priorities. */
const testOnLinux = process.platform === 'linux' ? test : test.skip;
const lowered = (nice: number): number => Math.min(getPriority() + nice, 19);
const blocked = new SharedArrayBuffer(4);

test("alternates between projects so that many jobs of one project don't block the others", async () => {
  const ended: string[] = [];
  const run = (owner: string, text: string) => runEcho(owner, { text }).then(() => ended.push(text));
  await Promise.all([run('a', 'a1'), run('a', 'a2'), run('a', 'a3'), run('a', 'a4'), run('b', 'b1'), run('c', 'c1'), run('b', 'b2')]);
  expect(ended).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
});

test('transfers large buffers to the thread and copies small ones', async () => {
  const large = Buffer.alloc(largeBytes, 7);
  const { bytes } = await runEcho('a', { text: '', bytes: large });
  expect(large.length).toBe(0);
  expect(Buffer.from(bytes ?? []).equals(Buffer.alloc(largeBytes, 7))).toBe(true);
  for (const small of [Buffer.from('abc'), Buffer.alloc(1_000, 7)]) {
    const before = small.toString();
    expect(Buffer.from((await runEcho('a', { text: '', bytes: small })).bytes ?? []).toString()).toBe(before);
    expect(small.toString()).toBe(before);
  }
});

test("a job that throws or crashes the worker thread doesn't affect other jobs", async () => {
  const [before, thrown, broken, after] = await Promise.allSettled([
    runEcho('a', { text: 'before' }),
    runFail('b', { message: 'no such text' }),
    runBreak('c', {}),
    runEcho('a', { text: 'after' }),
  ]);
  expect(before).toMatchObject({ value: { text: 'before' } });
  expect(thrown).toMatchObject({ reason: { message: 'no such text' } });
  expect(broken).toMatchObject({ reason: { message: 'the worker thread exited with code 1' } });
  expect(after).toMatchObject({ value: { text: 'after' } });
});

test('keeps the code and message of a GatewayError that a job throws', async () => {
  const error = await runRefuse('a', { message: 'not JSON' }).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(GatewayError);
  expect(error).toMatchObject({ code: 'bad_json', status: 400, message: 'not JSON' });
});

testOnLinux('runs the threads for large bodies and passwords at a low priority', async () => {
  expect(await runReadPriority('a', {})).toEqual({ priority: lowered(15) });
  expect(await runReadPasswordPriority('a', {})).toEqual({ priority: lowered(10) });
});

testOnLinux("also lowers the priority of V8's garbage collection threads", async () => {
  await runEcho('a', { text: '' });
  const threads = readdirSync('/proc/self/task').filter((id) => readFileSync(`/proc/self/task/${id}/comm`, 'utf8') === 'V8Worker\n');
  expect(new Set(threads.map((id) => getPriority(Number(id))))).toEqual(new Set([lowered(10)]));
});

test('hashes a password while a large body is being read', async () => {
  const ended: string[] = [];
  const body = runBlock('a', { flag: new Int32Array(blocked) }).then(({ woken }) => {
    expect(woken).not.toBe('timed-out');
    ended.push('body');
  });
  await runPasswordEcho('a', { text: '' });
  ended.push('password');
  Atomics.store(new Int32Array(blocked), 0, 1);
  Atomics.notify(new Int32Array(blocked), 0);
  await body;
  expect(ended).toEqual(['password', 'body']);
});

testOnLinux("a starting thread doesn't compete with the event loop", async () => {
  await expect(runBreak('a', {})).rejects.toThrow();
  const others = new Set(readdirSync('/proc/self/task'));
  const job = runEcho('a', { text: '' });
  const started = readdirSync('/proc/self/task').filter((id) => !others.has(id));
  expect(started).toHaveLength(1);
  expect(getPriority(Number(started[0]))).toBe(lowered(15));
  await job;
});
