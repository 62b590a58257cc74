import { expect, test } from '@jest/globals';
import { createBodyMemory } from '../../src/http/body-memory.ts';

const mebibyte = 1024 * 1024;

/** Returns how many MiB a key can hold in bodies of 1 MiB. */
function fill(memory: ReturnType<typeof createBodyMemory>, projectId: string, keyId: string): number {
  const bodies = memory.of(projectId, keyId);
  for (let held = 0; ; held += 1) {
    try {
      bodies.hold(mebibyte);
    } catch (error) {
      expect(error).toMatchObject({ code: 'budget_unavailable' });
      return held;
    }
  }
}

test('lets a single key use three quarters of the memory if there are no other keys', () => {
  expect(fill(createBodyMemory(512 * mebibyte), 'acme', 'one')).toBe(392);
});

test('leaves memory for other projects, no matter how many keys a project uses', () => {
  const memory = createBodyMemory(512 * mebibyte);
  const held = Array.from({ length: 1_000 }, (_, index) => fill(memory, 'acme', `key ${index}`)).reduce((sum, each) => sum + each, 0);
  expect(held).toBeLessThanOrEqual(448);
  expect(memory.isFull()).toBe(false);
  memory.of('other', 'one').hold(32 * mebibyte);
});

test('leaves memory for the other keys of a project', () => {
  const memory = createBodyMemory(512 * mebibyte);
  fill(memory, 'acme', 'one');
  memory.of('acme', 'two').hold(32 * mebibyte);
});

test('leaves memory for normal-sized bodies while three projects send large ones', () => {
  const memory = createBodyMemory(512 * mebibyte);
  for (let index = 0; index < 3; index += 1) fill(memory, `project ${index}`, `key ${index}`);
  expect(memory.isFull()).toBe(false);
  memory.of('other', 'one').hold(mebibyte);
});

test.each([32, 36, 64, 512])('always has room for a single 32 MiB body with %s MiB of memory', (total) => {
  createBodyMemory(total * mebibyte)
    .of('acme', 'one')
    .hold(32 * mebibyte);
});

test('counts only bodies that are still in memory', () => {
  const memory = createBodyMemory(64 * mebibyte);
  const bodies = memory.of('acme', 'one');
  for (let index = 0; index < 100; index += 1) {
    bodies.hold(20 * mebibyte);
    bodies.release(20 * mebibyte);
  }
  expect(memory.heldBytes).toBe(0);
});
