import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { FormattedJson, toLinePieces } from '../../../src/memory/portability/json-lines.ts';

test('yields to the event loop while it writes long lines of JSON', async () => {
  const messages = Array.from({ length: 30_000 }, (_, index) => ({ role: 'user', text: `a short message, number ${index}` }));
  const numbers = Array.from({ length: 60_000 }, (_, index) => (index + 1) / 3e100);
  const metadata = Object.fromEntries(numbers.slice(0, 10_000).map((_, index) => [`${'a long name '.repeat(10)}${index}`, true]));
  const text = 'a "quoted" line\n😀\u0001\ud800 '.repeat(100_000);
  const records = [
    { type: 'item', text: 'short', subject: null, tags: [null, 1.5, true] },
    { type: 'message', text, tool_calls: [{ name: 'search', arguments: text, empty: null }, null], created_at: '2026-01-01' },
    { type: 'prompt', messages },
    { type: 'numbers', numbers },
    { type: 'metadata', metadata },
    { type: 'end', records: { item: 1 } },
  ];
  let turns = 0;
  let isDone = false;
  const counting = (async () => {
    for (; !isDone; turns += 1) await nextTurn();
  })();
  const pieces: { text: string; turn: number }[] = [];
  for await (const piece of toLinePieces(records)) pieces.push({ text: piece, turn: turns });
  isDone = true;
  await counting;
  const lines = pieces.map((piece) => piece.text).join('');
  expect(lines.split('\n').map((line) => (line === '' ? null : JSON.parse(line)))).toEqual([
    { type: 'item', text: 'short', tags: [null, 1.5, true] },
    { type: 'message', text, tool_calls: [{ name: 'search', arguments: text }, null], created_at: '2026-01-01' },
    { type: 'prompt', messages },
    { type: 'numbers', numbers },
    { type: 'metadata', metadata },
    { type: 'end', records: { item: 1 } },
    null,
  ]);
  // Because of escapes, a piece can be longer than its text.
  for (const piece of pieces) expect(piece.text.length).toBeLessThan(1_024 * 1_024);
  expect(new Set(pieces.map(({ turn }) => turn)).size).toBe(pieces.length);
});

test.each([0, 1])('never splits a surrogate pair when it copies JSON from PostgreSQL (offset %d)', async (offset) => {
  const long = `${'x'.repeat(offset)}${'😀'.repeat(400_000)}`;
  const records = [{ text: new FormattedJson(JSON.stringify(long)) }, { text: new FormattedJson('"short"') }, { text: null }];
  const bytes: Buffer[] = [];
  for await (const piece of toLinePieces(records)) bytes.push(Buffer.from(piece));
  expect(
    Buffer.concat(bytes)
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toEqual([{ text: long }, { text: 'short' }, {}]);
});
