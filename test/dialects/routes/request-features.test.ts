import { describe, expect, test } from '@jest/globals';
import { scanObject } from '../../../src/core/json/spans.ts';
import { parseLastUserText } from '../../../src/dialects/prompt/last-user-text.ts';
import { detectFeatures } from '../../../src/dialects/routes/request-features.ts';

const featuresOf = (text: string) => {
  const body = Buffer.from(text);
  return detectFeatures(body, scanObject(body));
};
const none = { inputBytes: 2, messages: 0, hasTools: false, hasImages: false, hasCode: false };

describe('features of a body', () => {
  test.each<[string, string, object]>([
    ['nothing', '{}', { ...none, inputBytes: 0 }],
    ['no messages', '{"messages":[]}', none],
    [
      'messages are counted by their roles',
      '{"messages":[{"role":"user","content":"a"},{"role" : "assistant","content":"role"}]}',
      { messages: 2 },
    ],
    [
      'a role mentioned in a text does not count',
      JSON.stringify({ messages: [{ role: 'user', content: '{"role": "user"}' }] }),
      { messages: 1 },
    ],
    ['bytes of messages and system', '{"system":"abc","messages":[1],"metadata":{"a":"bcdefgh"}}', { inputBytes: 8 }],
    ['tools', '{"messages":[],"tools":[{"type":"function"}]}', { hasTools: true }],
    ['functions', '{"messages":[],"functions":[{}]}', { hasTools: true }],
    ['an empty list of tools', '{"messages":[],"tools":[ \n]}', { hasTools: false }],
    ['tools that are no list', '{"messages":[],"tools":null}', { hasTools: false }],
    [
      'an image of chat',
      '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}',
      { hasImages: true },
    ],
    ['an image of messages', '{"messages":[{"role":"user","content":[{"type" :\n"image","source":{}}]}]}', { hasImages: true }],
    ['an image mentioned in a text', JSON.stringify({ messages: [{ role: 'user', content: '"type":"image"' }] }), { hasImages: false }],
    ['a member called image', '{"messages":[{"role":"assistant","content":[{"input":{"image":1}}]}]}', { hasImages: false }],
    ['code', JSON.stringify({ messages: [{ role: 'user', content: 'see\n```js\n1\n```' }] }), { hasCode: true }],
    ['code in the system prompt', JSON.stringify({ system: '```', messages: [] }), { hasCode: true }],
    ['a code word is no code', JSON.stringify({ messages: [{ role: 'user', content: 'the `x`' }] }), { hasCode: false }],
    ['fences elsewhere', '{"messages":[],"stop":["```"]}', { hasCode: false }],
  ])('finds %s', (_name, text, expected) => {
    expect(featuresOf(text)).toMatchObject(expected);
  });

  test('searches only the first 256 KiB', () => {
    const text = JSON.stringify({ messages: [{ role: 'user', content: `${'x'.repeat(33_000_000)}\`\`\`` }] });
    expect(featuresOf(text)).toMatchObject({ hasCode: false, messages: 1 });
  });

  test('counts at most a thousand messages', () => {
    expect(featuresOf(JSON.stringify({ messages: Array.from({ length: 1_500 }, () => ({ role: 'user' })) })).messages).toBe(1_000);
  });
});

describe('the last user text', () => {
  const read = (body: unknown) => {
    const bytes = Buffer.from(JSON.stringify(body));
    return parseLastUserText('chat', bytes, scanObject(bytes));
  };

  test.each<[string, unknown, string | null]>([
    [
      'the last of several',
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'user', content: 'b' },
          { role: 'assistant', content: 'c' },
        ],
      },
      'b',
    ],
    ['parts', { messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }] }] }, 'a'],
    ['no user', { messages: [{ role: 'system', content: 'a' }] }, null],
    ['no messages', {}, null],
    ['what is no message', { messages: [7, null, 'x'] }, null],
    ['too much to parse', { messages: [{ role: 'user', content: 'x'.repeat(300_000) }] }, null],
  ])('finds %s', (_name, body, text) => {
    expect(read(body)).toBe(text);
  });
});
