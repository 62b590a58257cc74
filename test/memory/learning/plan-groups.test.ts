/** Tests how waiting messages are divided into groups, each of which fits into one model call. */
import { expect, test } from '@jest/globals';
import { type MessageSize, planGroups } from '../../../src/memory/learning/plan-groups.ts';

const messages = (count: number, bytes: number, { conversationId = 'c', subject = null }: Partial<MessageSize> = {}): MessageSize[] =>
  Array.from({ length: count }, (_, position) => ({ conversationId, subject, position, bytes }));
const sizesOf = (sizes: readonly MessageSize[], several: boolean) =>
  planGroups(sizes, { allowMultiple: several }).groups.map(({ subject, messages: count }) => [subject, count]);

test("learns separately from each end user's messages and from messages without an end user", () => {
  const sizes = [
    ...messages(3, 10),
    ...messages(2, 10, { conversationId: 'd', subject: 'ann' }),
    ...messages(1, 10, { conversationId: 'e' }),
  ];
  expect(sizesOf(sizes, false)).toEqual([
    [null, 4],
    ['ann', 2],
  ]);
  expect(sizesOf(messages(10, 15_000), true)).toEqual([
    [null, 4],
    [null, 4],
    [null, 2],
  ]);
});

test('learns from at most a thousand messages of an end user at a time', () => {
  const { groups, ends } = planGroups(messages(2_500, 1), { allowMultiple: false });
  expect(groups).toEqual([{ subject: null, messages: 1_000, ranges: [{ conversationId: 'c', from: 0, to: 1_000 }] }]);
  expect([...ends]).toEqual([['c', 1_000]]);
  expect(sizesOf(messages(2_500, 1), true)).toEqual([
    [null, 1_000],
    [null, 1_000],
    [null, 500],
  ]);
});
