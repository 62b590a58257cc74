import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Dialect } from '../../../src/core/call.ts';
import { parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import { scanObject, splice } from '../../../src/core/json/spans.ts';
import { findRecallInsertion } from '../../../src/dialects/prompt/recall-insertion.ts';
import { wrapRecalled } from '../../../src/dialects/prompt/recalled-block.ts';

const block = 'a "block"\nof two lines';

/** Returns the body with the block inserted, or null if nothing can be inserted. */
function insert(dialect: Dialect, text: string): { text: string; userText: string } | null {
  const body = Buffer.from(text);
  const place = findRecallInsertion(dialect, body, scanObject(body));
  return place && { text: splice(body, place.insert(block)).toString(), userText: place.userText };
}

const message = `{"role":"system","content":${JSON.stringify(block)}}`;
const textBlock = `{"type":"text","text":${JSON.stringify(block)}}`;

describe('inserting recalled memories into a chat request', () => {
  test.each([
    ['without a system message', '[ {"role":"user","content":"hi"} ]', `[ ${message},{"role":"user","content":"hi"} ]`],
    [
      'one',
      '[{"role":"system","content":"s"} , {"role":"user","content":"hi"}]',
      `[{"role":"system","content":"s"} , ${message},{"role":"user","content":"hi"}]`,
    ],
    [
      'after system and developer messages',
      '[{"role":"system"},{"role":"developer"},{"role":"user","content":"hi"},{"role":"system"}]',
      `[{"role":"system"},{"role":"developer"},${message},{"role":"user","content":"hi"},{"role":"system"}]`,
    ],
    [
      'after an escaped role',
      '[{"r\\u006fle":"s\\u0079stem"},{"role":"user","content":"hi"}]',
      `[{"r\\u006fle":"s\\u0079stem"},${message},{"role":"user","content":"hi"}]`,
    ],
    ["before something that isn't a message", '[1,{"role":"user","content":"hi"}]', `[${message},1,{"role":"user","content":"hi"}]`],
  ])('adds recalled memories as one system message: %s', (_name, before, after) => {
    expect(insert('chat', `{"a":1.0,"messages":${before}, "z":1e5 }`)?.text).toBe(`{"a":1.0,"messages":${after}, "z":1e5 }`);
  });
});

describe('inserting recalled memories into a messages request', () => {
  const rest = '"messages":[{"role":"user","content":"hi"}]';
  test.each([
    [
      'a string becomes two blocks',
      `{"system" : "be \\u006bind",${rest}}`,
      `{"system" : [{"type":"text","text":"be \\u006bind"},${textBlock}],${rest}}`,
    ],
    [
      'a list gets another block',
      `{"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}} ],${rest}}`,
      `{"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}} ,${textBlock}],${rest}}`,
    ],
    ['an empty list gets its first block', `{"system":[ ],${rest}}`, `{"system":[ ${textBlock}],${rest}}`],
    ['null is replaced', `{"system":null,${rest}}`, `{"system":${JSON.stringify(block)},${rest}}`],
    ['an empty string is replaced', `{"system":"",${rest}}`, `{"system":${JSON.stringify(block)},${rest}}`],
    ['a missing system prompt is added', `{${rest}}`, `{"system":${JSON.stringify(block)},${rest}}`],
  ])('adds recalled memories as one text block to system: %s', (_name, before, after) => {
    expect(insert('messages', before)?.text).toBe(after);
  });

  test("doesn't insert memories if `system` has an unexpected type", () => {
    expect(insert('messages', `{"system":7,${rest}}`)).toBeNull();
  });
});

describe('the last user text', () => {
  const megabytes = 'A'.repeat(1_500_000);
  const photo = { type: 'image_url', image_url: { url: `data:image/png;base64,${megabytes}` } };

  test.each<[string, Dialect, unknown[], string | null]>([
    [
      'the last user message',
      'chat',
      [
        { role: 'user', content: 'one' },
        { role: 'assistant', content: 'x' },
        { role: 'user', content: 'two' },
      ],
      'two',
    ],
    [
      'texts of parts',
      'chat',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'image_url', image_url: { url: 'https://x' } },
            { type: 'text', text: 'b' },
          ],
        },
      ],
      'a\nb',
    ],
    [
      'the user message before tool results',
      'messages',
      [
        { role: 'user', content: 'find it' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'found' }] },
      ],
      'find it',
    ],
    [
      'nothing without a user message',
      'chat',
      [
        { role: 'system', content: 's' },
        { role: 'assistant', content: 'x' },
      ],
      null,
    ],
    [
      'nothing if there are only images',
      'chat',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://x' } }] }],
      null,
    ],
    [
      'the text next to a large image',
      'chat',
      [{ role: 'user', content: [photo, { type: 'text', text: 'a' }, photo, { type: 'text', text: 'b' }] }],
      'a\nb',
    ],
    [
      'the text before a large image',
      'chat',
      [
        { role: 'user', content: 'a' },
        { role: 'user', content: [photo] },
      ],
      'a',
    ],
    [
      'nothing if the last text is a document',
      'chat',
      [
        { role: 'user', content: 'a' },
        { role: 'user', content: megabytes },
      ],
      null,
    ],
    ['nothing if the last texts are a document', 'chat', [{ role: 'user', content: [megabytes] }], null],
    ['nothing if there are too many blocks', 'chat', [{ role: 'user', content: [...Array<object>(2_000).fill({}), photo, 'a'] }], null],
    ['nothing in white space', 'chat', [{ role: 'user', content: ' \n' }], null],
    ['nothing without messages', 'chat', [], null],
    ['no block that was recalled earlier', 'chat', [{ role: 'user', content: `hi ${wrapRecalled('recall', ['old'])} there` }], 'hi  there'],
  ])("finds the user's last text: %s", (_name, dialect, messages, text) => {
    expect(insert(dialect, JSON.stringify({ messages }))?.userText ?? null).toBe(text);
  });
});

/** Generates JSON like clients write it, with any white space, escapes, and numbers that parsing would change. */
const space = fc.constantFrom('', ' ', '\n  ', '\t');
const scalar = fc.constantFrom('1.0', '1e5', '12345678901234567890', '-0.10', '"\\u0041\\/"', 'null', 'true', '[ 1 ,2.50]', '{"b" : {} }');
const said = fc
  .tuple(fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool'), space, scalar)
  .map(([role, gap, odd]) => `{${gap}"role":${gap}"${role}"${gap},"odd":${odd},"content":"t"}`);
const bodies = fc
  .tuple(
    fc.array(
      fc.tuple(space, said, space).map((parts) => parts.join('')),
      { maxLength: 6 },
    ),
    space,
    scalar,
    fc.constantFrom(null, '"s"', '[]', '[{"type":"text","text":"s"} ]', 'null'),
  )
  .map(
    ([messages, gap, odd, system]) =>
      `${gap}{"first":${odd},${gap}"messages":${gap}[${gap}${messages.join(',')}]${gap},${system === null ? '' : `"system":${gap}${system},`}"last":${odd}}${gap}`,
  );

test('inserting recalled memories leaves all other bytes unchanged', () => {
  fc.assert(
    fc.property(bodies, fc.constantFrom<Dialect>('chat', 'messages'), (before, dialect) => {
      const after = insert(dialect, before);
      const old = parseJsonOrThrow(before) as { messages: { role: string }[]; system?: unknown };
      if (!old.messages.some(({ role }) => role === 'user')) {
        expect(after).toBeNull();
        return;
      }
      const text = after?.text ?? '';
      const changed = parseJsonOrThrow(text) as { messages: { role: string; content: unknown }[]; system?: unknown };
      if (dialect === 'chat') {
        const place = old.messages.findIndex(({ role }) => role !== 'system' && role !== 'developer');
        expect(changed.messages.toSpliced(place, 1)).toEqual(old.messages);
        expect(changed.messages[place]).toEqual({ role: 'system', content: block });
        expect(text.replace(`${message},`, '')).toBe(before);
      } else {
        expect(changed.messages).toEqual(old.messages);
        expect(JSON.stringify(changed.system).split(JSON.stringify(block)).length).toBe(2);
        const undone = [`,${textBlock}]`, `${textBlock}]`].reduce((left, added) => left.replace(added, ']'), text);
        const unset = undone
          .replace('[{"type":"text","text":"s"]', '"s"')
          .replace('[{"type":"text","text":"s"}]', '"s"')
          .replace(`{"system":${JSON.stringify(block)},`, '{')
          .replace(JSON.stringify(block), 'null');
        expect(unset.replace('[{"type":"text","text":"s"} ]', '"s"')).toBe(before.replace('[{"type":"text","text":"s"} ]', '"s"'));
      }
    }),
    { numRuns: 500 },
  );
});
