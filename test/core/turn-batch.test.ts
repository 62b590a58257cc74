import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { createTurnBatch } from '../../src/core/turn-batch.ts';

/** Waits like the handling of a call, which consists of several steps. */
async function waitSteps(steps: number): Promise<void> {
  for (let step = 0; step < steps; step += 1) await null;
}

test('runs all callbacks from one turn of the event loop together and in order', async () => {
  const batch = createTurnBatch();
  const ran: string[] = [];
  for (const name of ['first', 'second', 'third']) {
    batch.run(() => {
      ran.push(name);
      queueMicrotask(() => ran.push(`after ${name}`));
    });
  }
  await waitSteps(10);
  expect(ran).toEqual([]);
  await nextTurn();
  expect(ran).toEqual(['first', 'second', 'third', 'after first', 'after second', 'after third']);
});

test('runs the follow-up once after the whole batch, still in the same turn', async () => {
  const batch = createTurnBatch();
  const ran: string[] = [];
  const handle = async (name: string, steps: number): Promise<void> => {
    await waitSteps(steps);
    ran.push(name);
    if (ran.length === 1) batch.runAfter(() => ran.push('written'));
  };
  batch.run(() => void handle('short', 1));
  batch.run(() => void handle('long', 50));
  await nextTurn();
  expect(ran).toEqual(['short', 'long', 'written']);
});

test('runs the follow-up even if the batch is empty', async () => {
  const batch = createTurnBatch();
  const ran: string[] = [];
  batch.runAfter(() => ran.push('written'));
  expect(ran).toEqual([]);
  await nextTurn();
  expect(ran).toEqual(['written']);
});

test('defers callbacks that the batch itself adds until the next turn', async () => {
  const batch = createTurnBatch();
  const ran: string[] = [];
  batch.run(() => {
    ran.push('first');
    batch.run(() => ran.push('second'));
  });
  await nextTurn();
  expect(ran).toEqual(['first']);
  await nextTurn();
  expect(ran).toEqual(['first', 'second']);
});

test("doesn't run callbacks in the async context of the first caller", async () => {
  const batch = createTurnBatch();
  const context = new AsyncLocalStorage<string>();
  const contexts: unknown[] = [];
  context.run('a sampled call', () => batch.runAfter(() => contexts.push(context.getStore())));
  batch.run(() => contexts.push(context.getStore()));
  await nextTurn();
  expect(contexts).toEqual([undefined, undefined]);
});
