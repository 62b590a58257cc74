import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { expect, test } from '@jest/globals';
import { defineJob, largeBytes } from '../../src/core/low-priority-thread.ts';
import type { breakThread, echo, fail, readPriority } from './thread-jobs.ts';

const jobs = new URL('./thread-jobs.ts', import.meta.url).href;
const runEcho = defineJob<typeof echo<{ bytes?: Uint8Array; text: string }>>(jobs, 'echo');
const runFail = defineJob<typeof fail>(jobs, 'fail');
const runBreak = defineJob<typeof breakThread>(jobs, 'breakThread');
const runReadPriority = defineJob<typeof readPriority>(jobs, 'readPriority');

test("takes turns between projects, so that one with many jobs doesn't block the others", async () => {
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

test('only the job that throws or crashes the worker thread fails', async () => {
  const [before, thrown, broken, after] = await Promise.allSettled([
    runEcho('a', { text: 'before' }),
    runFail('b', { message: 'no such text' }),
    runBreak('c', {}),
    runEcho('a', { text: 'after' }),
  ]);
  expect(before).toMatchObject({ value: { text: 'before' } });
  expect(thrown).toMatchObject({ reason: { message: 'no such text' } });
  expect(broken).toMatchObject({ reason: { message: 'the thread ended with code 1' } });
  expect(after).toMatchObject({ value: { text: 'after' } });
});

test("the thread and V8's garbage collection threads run at a lower priority than the event loop", async () => {
  const { priority } = await runReadPriority('a', {});
  expect(priority).toBeGreaterThan(getPriority());
  const threads = readdirSync('/proc/self/task').filter((id) => readFileSync(`/proc/self/task/${id}/comm`, 'utf8') === 'V8Worker\n');
  expect(new Set(threads.map((id) => getPriority(Number(id))))).toEqual(new Set([priority]));
});
