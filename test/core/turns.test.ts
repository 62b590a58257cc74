import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { expect, test } from '@jest/globals';
import { crc32InTurns, createTurns, joinInTurns, takeInTurns, takeTurn } from '../../src/core/turns.ts';

const mebibyte = 1_024 * 1_024;
const bytes = randomBytes(5 * mebibyte + 17);
const chunks = [bytes.subarray(0, 10), bytes.subarray(10, 3 * mebibyte), bytes.subarray(3 * mebibyte)];

/** Counts the turns of the event loop until the work has ended. */
async function countTurns<Result>(work: Promise<Result>): Promise<{ turns: number; result: Result }> {
  let isDone = false;
  const ended = work.finally(() => {
    isDone = true;
  });
  let turns = 0;
  for (; !isDone; turns += 1) await nextTurn();
  return { turns, result: await ended };
}

async function collect(pieces: AsyncIterable<Buffer>): Promise<Buffer[]> {
  const all: Buffer[] = [];
  for await (const piece of pieces) all.push(piece);
  return all;
}

test('yields to the event loop after every mebibyte while joining or checksumming buffers', async () => {
  const joined = await countTurns(joinInTurns(chunks, bytes.length));
  expect(joined.result.equals(bytes)).toBe(true);
  expect(joined.turns).toBeGreaterThanOrEqual(5);
  const sum = await countTurns(crc32InTurns(bytes.subarray(4), crc32(bytes.subarray(0, 4))));
  expect(sum.result).toBe(crc32(bytes));
  expect(sum.turns).toBeGreaterThanOrEqual(5);
});

test('splits large buffers into pieces of up to one mebibyte', async () => {
  const { turns, result } = await countTurns(collect(takeInTurns(chunks)));
  expect(Buffer.concat(result).equals(bytes)).toBe(true);
  expect(Math.max(...result.map(({ length }) => length))).toBe(mebibyte);
  expect(turns).toBeGreaterThanOrEqual(result.length);
});

test('gives concurrent callers separate turns of the event loop', async () => {
  let turns = 0;
  let isDone = false;
  const counting = (async () => {
    for (; !isDone; turns += 1) await nextTurn();
  })();
  const at = await Promise.all(Array.from({ length: 5 }, () => takeTurn().then(() => turns)));
  isDone = true;
  await counting;
  expect(new Set(at).size).toBe(5);
});

test('waits several turns between pieces of work if other work is queued, and one turn otherwise', async () => {
  const turnsPerPiece = async (turnMs: number): Promise<number> => {
    let time = 0;
    let turns = 0;
    let isDone = false;
    const take = createTurns({ now: () => time, readLoad: () => 'light' });
    const others = (async () => {
      for (; !isDone; turns += 1) {
        time += turnMs;
        await nextTurn();
      }
    })();
    for (let piece = 0; piece < 10; piece += 1) await take();
    isDone = true;
    await others;
    return turns / 10;
  };
  expect(await turnsPerPiece(1)).toBeGreaterThanOrEqual(4);
  expect(await turnsPerPiece(0.1)).toBeLessThan(2);
});

test.each([
  ['busy', 10],
  ['saturated', 50],
] as const)('while the event loop is %s with other work, waits for %d ms between two pieces', async (load, ms) => {
  const take = createTurns({ readLoad: () => load });
  const from = performance.now();
  for (let piece = 0; piece < 5; piece += 1) await take();
  expect(performance.now() - from).toBeGreaterThan(5 * ms - 5);
});

test('waits longer if other work keeps the event loop busy, but not if its own work does', async () => {
  /** Does 60 pieces of 2 ms on a simulated clock, with other work in between. */
  const work = async (othersMs: number): Promise<void> => {
    let time = 0;
    const take = createTurns({ now: () => time, activeMs: () => time });
    for (let piece = 0; piece < 60; piece += 1) {
      await take();
      time += 2 + othersMs;
    }
  };
  // If it waited even once, thousands of turns would pass.
  expect((await countTurns(work(0))).turns).toBeLessThan(200);
  const from = performance.now();
  await work(6);
  // It measures for a tenth of a second, and then waits for 10 ms before each piece.
  expect(performance.now() - from).toBeGreaterThan(300);
});
