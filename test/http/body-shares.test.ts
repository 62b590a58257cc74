import { expect, test } from '@jest/globals';
import { createBodyMemory } from '../../src/http/body-memory.ts';
import { createBodyShares } from '../../src/http/body-shares.ts';

const mebibyte = 1_048_576;

test('limits body memory per network, for all networks together, and per account', () => {
  const memory = createBodyMemory(64 * mebibyte);
  const { ofVisitor, ofAccount } = createBodyShares(memory);
  const full = expect.objectContaining({ code: 'budget_unavailable' });
  const visitors = ['a', 'b', 'c', 'd'].map((network) => ofVisitor(network));
  for (const visitor of visitors) visitor.hold(mebibyte);
  expect(() => ofVisitor('a').hold(1)).toThrow(full);
  expect(() => ofVisitor('e').hold(1)).toThrow(full);
  visitors[0]?.releaseAll();
  ofVisitor('e').hold(mebibyte);

  const account = ofAccount('ann');
  account.hold(32 * mebibyte);
  expect(() => ofAccount('ann').hold(1)).toThrow(full);
  ofAccount('ben').hold(1);
  expect(memory.heldBytes).toBe(36 * mebibyte + 1);
});

test("releases a body's remaining memory when the response is complete", () => {
  const memory = createBodyMemory(64 * mebibyte);
  const body = createBodyShares(memory).ofVisitor('a');
  body.hold(100);
  body.hold(50);
  body.release(100);
  expect(memory.heldBytes).toBe(50);
  body.releaseAll();
  expect(memory.heldBytes).toBe(0);
  body.releaseAll();
  expect(memory.heldBytes).toBe(0);
});
