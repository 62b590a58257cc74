import { expect, test } from '@jest/globals';
import { isUuid, minIdAt, newId } from '../../src/core/ids.ts';

const instants = [0, 1, 1_763_632_800_000, 1_763_632_800_001, 281_474_976_710_655];

test('creates UUIDv7 ids with the given timestamp', () => {
  for (const instant of instants) {
    const id = newId(instant);
    expect(isUuid(id)).toBe(true);
    expect(id[14]).toBe('7');
    expect(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)).toBe(instant);
  }
});

test('creates unique ids that sort by time', () => {
  const ids = instants.map((instant) => newId(instant));
  expect(ids.toSorted()).toEqual(ids);
});

test('creates ids that sort in creation order, even within a millisecond', () => {
  const ids = Array.from({ length: 2_000 }, () => newId(1_763_632_800_000));
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set([...ids, ...Array.from({ length: 5_000 }, () => newId(5))]).size).toBe(7_000);
});

test('minIdAt returns a lower bound for the ids of a given time', () => {
  for (const instant of instants) {
    const first = minIdAt(instant);
    expect(isUuid(first)).toBe(true);
    for (let n = 0; n < 50; n += 1) expect(first <= newId(instant)).toBe(true);
    if (instant > 0) for (let n = 0; n < 50; n += 1) expect(newId(instant - 1) < first).toBe(true);
  }
  expect(minIdAt(-5)).toBe(minIdAt(0));
});

test.each([
  '',
  'x',
  '0193',
  '0193a5f0-0000-7000-8000-00000000000',
  'g193a5f0-0000-7000-8000-000000000000',
  "0193a5f0-0000-7000-8000-000000000000' or 1=1",
])('rejects %j as an id', (text) => {
  expect(isUuid(text)).toBe(false);
});
