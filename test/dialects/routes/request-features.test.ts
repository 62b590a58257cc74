import { describe, expect, test } from '@jest/globals';
import { scanObject } from '../../../src/core/json/spans.ts';
import { parseLastUserText } from '../../../src/dialects/prompt/last-user-text.ts';
import { detectFeatures } from '../../../src/dialects/routes/request-features.ts';

const featuresOf = (text: string) => {
  const body = Buffer.from(text);
  return detectFeatures(body, scanObject(body));
};
const none = { inputBytes: 2, messages: 0, hasTools: false, hasImages: false, hasCode: false };

describe('features of a request body', () => {
  test.each<[string, string, object]>([
    ['nothing in an empty body', '{}', { ...none, inputBytes: 0 }],
    ['nothing in an empty list', '{"messages":[]}', none],
    [
      'the number of messages by their roles',
      '{"messages":[{"role":"user","content":"a"},{"role" : "assistant","content":"role"}]}',
      { messages: 2 },
    ],
    [
      'no message in a text that mentions a role',
      JSON.stringify({ messages: [{ role: 'user', content: '{"role": "user"}' }] }),
      { messages: 1 },
    ],
    ['the bytes of messages and system', '{"system":"abc","messages":[1],"metadata":{"a":"bcdefgh"}}', { inputBytes: 8 }],
    ['tools', '{"messages":[],"tools":[{"type":"function"}]}', { hasTools: true }],
    ['functions', '{"messages":[],"functions":[{}]}', { hasTools: true }],
    ['no tools in an empty list', '{"messages":[],"tools":[ \n]}', { hasTools: false }],
    ['no tools if they are null', '{"messages":[],"tools":null}', { hasTools: false }],
    [
      'an image in chat',
      '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}',
      { hasImages: true },
    ],
    ['an image in messages', '{"messages":[{"role":"user","content":[{"type" :\n"image","source":{}}]}]}', { hasImages: true }],
    [
      'no image in a text that mentions one',
      JSON.stringify({ messages: [{ role: 'user', content: '"type":"image"' }] }),
      { hasImages: false },
    ],
    ['no image in a member called image', '{"messages":[{"role":"assistant","content":[{"input":{"image":1}}]}]}', { hasImages: false }],
    ['code', JSON.stringify({ messages: [{ role: 'user', content: 'see\n```js\n1\n```' }] }), { hasCode: true }],
    ['code in the system prompt', JSON.stringify({ system: '```', messages: [] }), { hasCode: true }],
    ['no code in inline backticks', JSON.stringify({ messages: [{ role: 'user', content: 'the `x`' }] }), { hasCode: false }],
    ['no code outside the prompt', '{"messages":[],"stop":["```"]}', { hasCode: false }],
  ])('finds %s', (_name, text, expected) => {
    expect(featuresOf(text)).toMatchObject(expected);
  });

  test('looks for code only in the first 256 KiB of a request', () => {
    const text = JSON.stringify({ messages: [{ role: 'user', content: `${'x'.repeat(33_000_000)}\`\`\`` }] });
    expect(featuresOf(text)).toMatchObject({ hasCode: false, messages: 1 });
  });

  test('counts no more than 1,000 messages in a request', () => {
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
      'the last of several user texts',
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'user', content: 'b' },
          { role: 'assistant', content: 'c' },
        ],
      },
      'b',
    ],
    ['a text in parts', { messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }] }] }, 'a'],
    ['nothing without a user message', { messages: [{ role: 'system', content: 'a' }] }, null],
    ['no messages', {}, null],
    ["nothing in values that aren't messages", { messages: [7, null, 'x'] }, null],
    ['nothing in a body that is too large', { messages: [{ role: 'user', content: 'x'.repeat(300_000) }] }, null],
  ])('finds the last user text: %s', (_name, body, text) => {
    expect(read(body)).toBe(text);
  });
});
