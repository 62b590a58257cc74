/** Tests the readers of projects that were set aside, without a journal or a database. */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import type { Position } from '../../src/journal/position.ts';
import { createSetAside, type SetAsideOptions } from '../../src/journal/set-aside.ts';
import { until } from '../support/until.ts';
import { lockTimeout } from './locked-store.ts';

const running: { readonly stop: () => void }[] = [];
afterEach(() => {
  jest.restoreAllMocks();
  for (const readers of running.splice(0)) readers.stop();
});

/** Sets projects aside, and lets `storeWindowOf` store their calls. There are two segments of 1,000 bytes. */
function createReaders(projectIds: readonly string[], storeWindowOf: SetAsideOptions['storeWindowOf'], minAsideMs = 0) {
  let drained: Position = { segment: 1, offset: 0 };
  const segment = { file: '', bytes: 1_000, sealed: false, createdAt: 0 };
  const setAside = createSetAside({
    segments: () => [
      { ...segment, number: 1 },
      { ...segment, number: 2 },
    ],
    drained: () => drained,
    drainedUntil: () => performance.now(),
    storeWindowOf,
    onProgress: () => undefined,
    onFirstFailure: () => undefined,
    onRecovered: () => undefined,
    minAsideMs,
  });
  running.push(setAside);
  for (const projectId of projectIds) setAside.add(projectId);
  /** The drain only wakes the readers after it has stored a window. */
  const moveTo = (offset: number, number: number): void => {
    if (number > drained.segment) setAside.moveOn({ segment: number, offset: 0 });
    drained = { segment: number, offset };
  };
  return {
    ...setAside,
    moveTo,
    drainTo(offset: number, number = 1): void {
      moveTo(offset, number);
      setAside.wake();
    },
    storedUpTo: (projectId: string, offset: number) =>
      until(`the calls of ${projectId} are stored up to ${offset}`, () => setAside.positionOf(projectId).offset === offset),
  };
}

describe('a project that was set aside', () => {
  test("stores a free project's calls while other projects are locked or slow", async () => {
    const stillLocked = ['a', 'b', 'c', 'd'];
    let hangs = false;
    const attempts: string[] = [];
    const readers = createReaders([...stillLocked, 'slow', 'free'], async ({ end }, projectId) => {
      attempts.push(projectId);
      if (hangs && projectId !== 'free') await new Promise(() => undefined);
      if (!stillLocked.includes(projectId)) return end;
      await setImmediate();
      throw lockTimeout();
    });
    readers.drainTo(10);
    await Promise.all(['slow', 'free'].map((projectId) => readers.storedUpTo(projectId, 10)));
    hangs = true;
    attempts.length = 0;
    await until('all turns of locked projects are taken', () => attempts.length === 3);
    readers.drainTo(20);
    await readers.storedUpTo('free', 20);
  });

  test.each([
    ['a bit', 150],
    ['much', 300],
  ])('a busy drain takes a project back even if its reader takes %s longer than the drain', async (_how, readerMs) => {
    const readers = createReaders(['slow'], ({ end }) => sleep(readerMs, end));
    for (let offset = 1; readers.has('slow'); offset += 1) {
      expect(offset).toBeLessThan(1_000);
      readers.drainTo(offset);
      await sleep(20);
      await readers.takeBack();
    }
  });

  test.each([
    ['in the same segment', 1],
    ['in the next segment', 2],
  ])('measures the lag of a project from its oldest unstored call (%s)', async (_where, segment) => {
    let hangs = false;
    const readers = createReaders(['idle'], ({ end }) => (hangs ? new Promise(() => undefined) : Promise.resolve(end)), 60_000);
    readers.drainTo(10);
    await readers.storedUpTo('idle', 10);
    hangs = true;
    await sleep(5);
    const movedOnAt = performance.now();
    readers.drainTo(segment === 1 ? 10 : 0, segment);
    await readers.takeBack();
    readers.drainTo(20, segment);
    expect(readers.storedUntil()).toBeGreaterThanOrEqual(movedOnAt);
  });

  test('waits only briefly for locks until the project is locked again', async () => {
    let isLocked = true;
    const lanes: string[] = [];
    const readers = createReaders(['a'], async ({ end }, _projectId, lane) => {
      lanes.push(lane);
      await setImmediate();
      if (isLocked) throw lockTimeout();
      return end;
    });
    const attempts = (count: number) => until(`the reader has tried ${count} times`, () => lanes.length >= count);
    readers.drainTo(10);
    await attempts(2);
    isLocked = false;
    await readers.storedUpTo('a', 10);
    isLocked = true;
    lanes.length = 0;
    readers.drainTo(20);
    await attempts(2);
    expect(lanes.slice(0, 2)).toEqual(['free', 'locked']);
  });

  test('reports about all projects leave out a project that is locked or far behind', async () => {
    let now = performance.now();
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    const windows: PromiseWithResolvers<number>[] = [];
    const readers = createReaders(
      ['a'],
      () => {
        const window = Promise.withResolvers<number>();
        windows.push(window);
        return window.promise;
      },
      60_000,
    );
    const isStoring = (count: number) => until(`window ${count} is being stored`, () => windows.length === count);
    const followed = (): number => readers.followedPosition().offset;
    readers.drainTo(10);
    await isStoring(1);
    expect(followed()).toBe(10);
    now += 6_000;
    readers.drainTo(20);
    windows[0]?.resolve(10);
    await isStoring(2);
    expect(followed()).toBe(20);
    windows[1]?.resolve(20);
    await readers.storedUpTo('a', 20);
    await readers.takeBack();
    readers.drainTo(30);
    expect(followed()).toBe(20);
    now += 6_000;
    expect(followed()).toBe(30);
  });

  test('reports about all projects still include a project if only the drain is slow', async () => {
    let now = performance.now();
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    let hangs = false;
    const readers = createReaders(['a'], ({ end }) => (hangs ? new Promise(() => undefined) : Promise.resolve(end)), 60_000);
    readers.drainTo(10);
    await readers.storedUpTo('a', 10);
    hangs = true;
    now += 60_000;
    readers.drainTo(20);
    expect(readers.followedPosition().offset).toBe(10);
  });

  test('reports about all projects include a project after a new segment has begun', async () => {
    let now = performance.now();
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    const windows: PromiseWithResolvers<number>[] = [];
    const readers = createReaders(['a'], () => {
      const window = Promise.withResolvers<number>();
      windows.push(window);
      return window.promise;
    });
    readers.drainTo(1_000);
    await until('the last calls of the segment are being stored', () => windows.length === 1);
    readers.moveTo(0, 2);
    windows[0]?.resolve(1_000);
    await until('the reader has moved on', () => readers.positionOf('a').segment === 2);
    now += 60_000;
    readers.drainTo(10, 2);
    expect(readers.followedPosition()).toEqual({ segment: 2, offset: 0 });
  });

  test('reports about all projects leave out a project whose calls cannot be stored', async () => {
    let isBroken = false;
    const readers = createReaders(['a'], async ({ end }) => {
      if (isBroken) throw new Error('the index is damaged');
      return end;
    });
    readers.drainTo(10);
    await readers.storedUpTo('a', 10);
    isBroken = true;
    readers.drainTo(20);
    await until('the reader fails', () => readers.isFailing('a'));
    expect(readers.followedPosition().offset).toBe(20);
  });

  test('a project stays set aside for a while after a short lock unless others need its place', async () => {
    const readers = createReaders(['short'], async ({ end }) => end, 60_000);
    readers.drainTo(10);
    await readers.storedUpTo('short', 10);
    await readers.takeBack();
    expect(readers.has('short')).toBe(true);
    const others = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    for (const projectId of others) readers.add(projectId);
    await readers.takeBack();
    expect(['short', ...others].filter(readers.has)).toEqual(others);
  });
});
