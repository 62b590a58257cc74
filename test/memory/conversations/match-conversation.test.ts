/**
 * Tests which conversation a call belongs to. Each case runs once with all calls in a single batch and once with a
 * batch for each call.
 */
import { describe, expect, test } from '@jest/globals';
import { describeAnyDatabase } from '../../db/databases.ts';
import {
  type CallOptions,
  chatBody,
  createProject,
  listConversationIds,
  listConversations,
  markAllRead,
  record,
  settledCall,
} from '../calls.ts';

/** A call. The lines are the messages of the request (`u …`, `a …`), and `answer` is the response. */
interface Step extends Omit<CallOptions, 'projectId' | 'body'> {
  readonly lines: readonly string[];
  /** If true, all conversations are marked as closed before this call. */
  readonly afterReading?: boolean;
}

interface Case {
  readonly title: string;
  readonly steps: readonly Step[];
  /** The messages of the resulting conversations, starting with the oldest conversation. */
  readonly conversations: readonly (readonly string[])[];
  /** For each call, the index of its conversation. */
  readonly filed: readonly number[];
}

const first: Step = { lines: ['u q1'], answer: 'r1' };
const second: Step = { lines: ['u q1', 'a r1', 'u q2'], answer: 'r2' };
const third: Step = { lines: ['u q1', 'a r1', 'u q2', 'a r2', 'u q3'], answer: 'r3' };
const one = ['u q1', 'a r1'];
const two = [...one, 'u q2', 'a r2'];
const three = [...two, 'u q3', 'a r3'];
const ann = { subject: 'ann' };

const cases: readonly Case[] = [
  { title: 'a call without history opens a conversation', steps: [first], conversations: [one], filed: [0] },
  {
    title: 'a call that continues the last message extends the conversation',
    steps: [first, second, third],
    conversations: [three],
    filed: [0, 0, 0],
  },
  {
    title: 'a call with an unknown history opens a conversation with the whole history',
    steps: [second],
    conversations: [two],
    filed: [0],
  },
  {
    title: 'an identical call without history opens another conversation',
    steps: [first, first],
    conversations: [one, one],
    filed: [0, 1],
  },
  {
    title: 'two callers that begin identically continue in separate conversations',
    steps: [first, first, second, { lines: ['u q1', 'a r1', 'u other'], answer: 'x' }],
    conversations: [[...one, 'u other', 'a x'], two],
    filed: [0, 1, 1, 0],
  },
  { title: 'a repeated call adds no message', steps: [first, second, second], conversations: [two], filed: [0, 0, 0] },
  {
    title: 'a repeat of an earlier call adds no message',
    steps: [first, second, third, second],
    conversations: [three],
    filed: [0, 0, 0, 0],
  },
  {
    title: 'a call that arrives after the next one is still matched by its response',
    steps: [first, third, second],
    conversations: [three],
    filed: [0, 0, 0],
  },
  {
    title: 'a first call that arrives last is still matched by its response',
    steps: [
      { ...second, at: 10 },
      { ...third, at: 20 },
      { ...first, at: 0 },
    ],
    conversations: [three],
    filed: [0, 0, 0],
  },
  {
    title: 'a call joins its conversation even if the previous call is missing',
    steps: [first, third],
    conversations: [three],
    filed: [0, 0],
  },
  {
    title: 'an edited message opens a new conversation',
    steps: [
      first,
      second,
      { lines: ['u q1', 'a r1', 'u edited'], answer: 'x' },
      { lines: ['u q1', 'a r1', 'u edited', 'a x', 'u on'], answer: 'y' },
      third,
    ],
    conversations: [three, [...one, 'u edited', 'a x', 'u on', 'a y']],
    filed: [0, 0, 1, 1, 0],
  },
  {
    title: 'a regenerated response opens a new conversation',
    steps: [first, second, { ...second, answer: 'better' }],
    conversations: [two, [...one, 'u q2', 'a better']],
    filed: [0, 0, 1],
  },
  {
    title: 'an edited first message opens a new conversation',
    steps: [first, second, { lines: ['u other', 'a r1', 'u q2'], answer: 'x' }],
    conversations: [two, ['u other', 'a r1', 'u q2', 'a x']],
    filed: [0, 0, 1],
  },
  {
    title: 'an edit is detected even if the responses are identical',
    steps: [
      { ...ann, lines: ['u q1'], answer: 'ok' },
      { ...ann, lines: ['u q1', 'a ok', 'u q2'], answer: 'ok' },
      { ...ann, lines: ['u q1', 'a ok', 'u edited'], answer: 'x' },
    ],
    conversations: [
      ['u q1', 'a ok', 'u q2', 'a ok'],
      ['u q1', 'a ok', 'u edited', 'a x'],
    ],
    filed: [0, 0, 1],
  },
  {
    title: 'white space around a response is ignored',
    steps: [{ ...first, answer: '\n r1 \r\n' }, second],
    conversations: [['u q1', 'a \n r1 \r\n', 'u q2', 'a r2']],
    filed: [0, 0],
  },
  {
    title: 'changing system prompts are ignored',
    steps: [
      { ...first, lines: ['s monday', 'u q1'] },
      { ...second, lines: ['s tuesday', 'u q1', 'a r1', 's now', 'u q2'] },
    ],
    conversations: [two],
    filed: [0, 0],
  },
  {
    title: 'a client that drops old messages stays in its conversation',
    steps: [first, second, third, { lines: ['u q3', 'a r3', 'u q4'], answer: 'r4' }, { lines: ['u q4', 'a r4', 'u q5'], answer: 'r5' }],
    conversations: [[...three, 'u q4', 'a r4', 'u q5', 'a r5']],
    filed: [0, 0, 0, 0, 0],
  },
  {
    title: 'a client that has dropped old messages can continue its conversation',
    steps: [
      first,
      second,
      { lines: ['u q2', 'a r2', 'u q3'], answer: 'r3' },
      { lines: ['u q2', 'a r2', 'u q3', 'a r3', 'u q4'], answer: 'r4' },
      { lines: ['u q2', 'a r2', 'u q3'], answer: 'r3' },
    ],
    conversations: [[...three, 'u q4', 'a r4']],
    filed: [0, 0, 0, 0, 0],
  },
  {
    title: 'without a subject, a shortened history that fits two conversations opens a new one',
    steps: [
      { lines: ['u x', 'a r', 'u thanks'], answer: 'bye' },
      { lines: ['u y', 'a r', 'u thanks'], answer: 'bye' },
      { lines: ['u thanks', 'a bye', 'u q'], answer: 'r' },
    ],
    conversations: [
      ['u x', 'a r', 'u thanks', 'a bye'],
      ['u y', 'a r', 'u thanks', 'a bye'],
      ['u thanks', 'a bye', 'u q', 'a r'],
    ],
    filed: [0, 1, 2],
  },
  {
    title: "without a subject, one shared assistant message isn't enough to join a conversation",
    steps: [first, second, { lines: ['a r2', 'u q9'], answer: 'x' }],
    conversations: [two, ['a r2', 'u q9', 'a x']],
    filed: [0, 0, 1],
  },
  {
    title: 'a summary may replace dropped messages if the call has a subject',
    steps: [
      { ...first, ...ann },
      { ...second, ...ann },
      { ...ann, lines: ['u (summary)', 'a r2', 'u q3'], answer: 'r3' },
    ],
    conversations: [three],
    filed: [0, 0, 0],
  },
  {
    title: 'a call without history joins the open conversation of its subject',
    steps: [
      { ...first, ...ann },
      { ...ann, lines: ['u new'], answer: 'x' },
      { ...ann, lines: ['u new', 'a x', 'u on'], answer: 'y' },
    ],
    conversations: [[...one, 'u new', 'a x', 'u on', 'a y']],
    filed: [0, 0, 0],
  },
  {
    title: "a call without history doesn't join a closed conversation",
    steps: [
      { ...first, ...ann },
      { ...ann, lines: ['u new'], answer: 'x', afterReading: true },
    ],
    conversations: [one, ['u new', 'a x']],
    filed: [0, 1],
  },
  {
    title: 'a call that continues a closed conversation reopens it',
    steps: [first, { ...second, afterReading: true }, third],
    conversations: [three],
    filed: [0, 0, 0],
  },
  {
    title: 'a call repeated after its conversation was closed opens a new conversation',
    steps: [first, second, third, { ...second, afterReading: true }],
    conversations: [three, two],
    filed: [0, 0, 0, 1],
  },
  {
    title: 'each subject has its own conversation',
    steps: [{ ...first, ...ann }, { ...second, subject: 'bob' }, second, { ...second, ...ann }],
    conversations: [two, two, two],
    filed: [0, 1, 2, 0],
  },
  {
    title: 'each source has its own conversation',
    steps: [first, { ...second, source: 'other' }, second],
    conversations: [two, two],
    filed: [0, 1, 0],
  },
  {
    title: 'a prefilled response and its continuation become one message',
    steps: [
      { route: 'messages', lines: ['u json', 'a {'], answer: '"a":1}' },
      { route: 'messages', lines: ['u json', 'a {"a":1}', 'u more'], answer: 'ok' },
    ],
    conversations: [['u json', 'a {"a":1}', 'u more', 'a ok']],
    filed: [0, 0],
  },
  {
    title: 'a conversation may continue on another route',
    steps: [first, { ...second, route: 'messages' }, { ...third, route: 'chat' }],
    conversations: [three],
    filed: [0, 0, 0],
  },
];

describeAnyDatabase('joining conversations', (database) => {
  describe.each(['in one batch', 'in a batch for each call'])('%s', (how) => {
    const isOne = how === 'in one batch';
    // Calls in a batch are ordered by their start, and no conversation can be closed between them.
    const fitting = cases.filter(({ steps }) => !isOne || steps.every((step) => !step.afterReading && step.at === undefined));

    test.each(fitting.map((row) => [row.title, row] as const))('%s', async (_title, { title, steps, conversations, filed }) => {
      const projectId = await createProject(database());
      const calls = steps.map(({ lines, afterReading, ...options }, index) =>
        settledCall({ projectId, at: index * 10, ...options, body: chatBody(...lines) }),
      );
      if (isOne) await record(database(), calls);
      for (const [index, call] of isOne ? [] : calls.entries()) {
        if (steps[index]?.afterReading) await markAllRead(database(), projectId);
        await record(database(), [call]);
      }
      const seen = await listConversations(database(), projectId);
      const ids = await listConversationIds(database(), calls);
      // If conversations start at the same time, they are in the order of their calls.
      const order = [...seen.map(({ id }) => id)];
      expect([title, seen.map(({ lines }) => lines)]).toEqual([title, conversations]);
      expect(ids.map((id) => order.indexOf(id ?? ''))).toEqual(filed);
    });
  });
});
