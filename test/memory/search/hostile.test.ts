/**
 * Sends prompts that try to stall the service. We count how much work they cause, and run cases in which a quadratic
 * algorithm wouldn't finish.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Queries } from '../../../src/db/database.ts';
import { toBatches } from '../../../src/db/row-batches.ts';
import { chainMessages, hashScope, toScopedKey } from '../../../src/memory/conversations/chain.ts';
import { matchConversation } from '../../../src/memory/conversations/match-conversation.ts';
import { recordCalls } from '../../../src/memory/conversations/record-calls.ts';
import type { Conversation, RecordedCall } from '../../../src/memory/conversations/working-set.ts';
import { createConversationWorkingSet } from '../../../src/memory/conversations/working-set.ts';
import { findNumbers } from '../../../src/memory/learning/numbers.ts';
import { tokenizeForIndex } from '../../../src/memory/text/lexemes.ts';
import { normalizeWords } from '../../../src/memory/text/normalized-text.ts';
import { describeAnyDatabase } from '../../db/databases.ts';
import { createProject, listConversationIds, listConversations, record, settledCall } from '../calls.ts';

const historyOf = (length: number): { role: string; content: string }[] =>
  Array.from({ length }, (_value, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content: `m${index}` }));

/** Returns the number of rows in a parameter, which is an array or a JSON list. */
function countRows(value: unknown): number {
  const rows: unknown = typeof value === 'string' && value.startsWith('[') ? JSON.parse(value) : value;
  return Array.isArray(rows) ? rows.length : 0;
}

describeAnyDatabase('long prompts', (database) => {
  test('stores the newest messages of a prompt with 100,001 messages in batches of 500 rows', async () => {
    const projectId = await createProject(database());
    const longest: number[] = [];
    await database().transaction((tx) => {
      const counting: Queries = {
        query(text, values = []) {
          longest.push(Math.max(0, ...values.map(countRows)));
          return tx.query(text, values);
        },
      };
      return recordCalls(counting, [settledCall({ projectId, body: { messages: historyOf(100_001) }, answer: 'end' })]);
    });
    expect(Math.max(...longest)).toBeLessThanOrEqual(500);
    const [seen] = await listConversations(database(), projectId);
    expect(seen?.lines).toHaveLength(1_002);
    expect([seen?.lines[0], seen?.lines.at(-2), seen?.lines.at(-1)]).toEqual(['u m99000', 'u m100000', 'a end']);
  });

  test('still recognizes a conversation after its prompts have become too long to store', async () => {
    const projectId = await createProject(database());
    const calls = [1_999, 2_001, 2_003, 2_999, 3_001].map((length, at) =>
      settledCall({ projectId, at, body: { messages: historyOf(length) }, answer: `m${length}` }),
    );
    for (const call of calls) await record(database(), [call]);
    const seen = await listConversations(database(), projectId);
    expect(seen.map(({ lines }) => lines.map((line) => line.slice(2)))).toEqual([historyOf(3_002).map(({ content }) => content)]);
    expect(new Set(await listConversationIds(database(), calls)).size).toBe(1);
  });
});

test('splits rows into batches of at most 500 rows and a million characters', () => {
  const lengths = (rows: readonly string[]) => [...toBatches(rows, (row) => row.length)].map((slice) => slice.length);
  expect(lengths(Array(1_200).fill('x'))).toEqual([500, 500, 200]);
  expect(lengths(['x'.repeat(600_000), 'y'.repeat(600_000), 'z'.repeat(3_000_000), 'a', 'b'])).toEqual([1, 1, 1, 2]);
  expect(lengths([])).toEqual([]);
});

test('tokenizes 300,000 combining marks in linear time', () => {
  const text = `e${'\u0315\u0300\uff9e'.repeat(100_000)} tea`;
  expect(tokenizeForIndex(text)).toMatch(/ tea$/);
  expect(normalizeWords(text)).toMatch(/ tea$/);
  expect(findNumbers(`${text} 12`)).toEqual([['12', '12']]);
});

describe('a conversation history that the client has trimmed', () => {
  test('finds where a trimmed history continues among 200,000 identical messages', () => {
    const many = 'a'.repeat(200_000);
    expect(matchTrimmedHistory(many, `u${many}`, 'ann')).toBe(200_000);
    expect(matchTrimmedHistory(many, `${many}aaaaa`, 'ann')).toBe(null);
  });

  test('finds where a trimmed history continues, with the same result as a simple quadratic search', () => {
    const word = fc.array(fc.constantFrom('u', 'a', 'v'), { minLength: 1, maxLength: 9 }).map((letters) => letters.join(''));
    fc.assert(
      fc.property(word, word, fc.constantFrom('ann', null), (request, known, subject) => {
        expect(matchTrimmedHistory(request, known, subject)).toBe(matchByDefinition(request, known, subject));
      }),
      { numRuns: 2_000 },
    );
  });
});

/**
 * Returns the index from which a request is new to the conversation `known`. Null if it opens a new conversation. Each
 * letter stands for a message. `a` is a message of the assistant.
 */
function matchTrimmedHistory(request: string, known: string, subject: string | null): number | null {
  const scope = hashScope('project', 'acme', subject);
  const partOf = new Map(
    [...'auv'].map((text) => [text, chainMessages([{ role: text === 'a' ? 'assistant' : 'user', text, toolCalls: [] }])[0]]),
  );
  const parts = [...request].flatMap((letter) => partOf.get(letter) ?? []);
  const hashes = [...known].flatMap((letter) => partOf.get(letter)?.messageHash ?? []);
  const call: RecordedCall = {
    callId: 'call',
    projectId: 'project',
    source: 'acme',
    subject,
    scope,
    explicitWrite: false,
    startedAt: 1,
    endedAt: 2,
    parts,
    keyAt: () => '00',
    promptLength: parts.length,
    firstAssistant: request.indexOf('a'),
  };
  const conversation: Conversation = {
    id: 'conversation',
    projectId: 'project',
    source: 'acme',
    subject,
    scope,
    isNew: false,
    state: 'read',
    opened: 1,
    learnable: true,
    calls: 1,
    messages: hashes.length,
    startedAt: 0,
    lastTurnAt: 0,
    tipKey: '01',
    tipMessageKey: toScopedKey(scope, hashes.at(-1) ?? ''),
    messageHashes: new Map(hashes.entries()),
    changed: false,
    needsIdleTimer: false,
    added: [],
  };
  const workingSet = createConversationWorkingSet();
  workingSet.add(conversation, []);
  const match = matchConversation(call, workingSet);
  return match.kind === 'continues' ? match.from : null;
}

/** Computes the same result directly from the definition. */
function matchByDefinition(request: string, known: string, subject: string | null): number | null {
  let best = { end: 0, length: 0 };
  if (!known.endsWith('a')) return null; // Only assistant messages tie a call to a conversation.
  for (let end = request.length; request.indexOf('a') >= 0 && end > request.indexOf('a'); end -= 1) {
    let length = 0;
    while (length < Math.min(end, known.length) && request[end - 1 - length] === known[known.length - 1 - length]) length += 1;
    const run = request.slice(end - length, end);
    const isMissingNothing = known.length > end && known.startsWith(request.slice(0, end));
    if (!run.includes('a') || length <= best.length || isMissingNothing) continue;
    const isWhole = length === end;
    if (subject === null ? isWhole && /[uv]/.test(run) : isWhole || known.length > end) best = { end, length };
  }
  return best.length > 0 ? best.end : null;
}
