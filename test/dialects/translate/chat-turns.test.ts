/** Tests the translation of chat messages for vendors of the messages dialect. */
import { describe, expect, test } from '@jest/globals';
import { asArray } from '../../../src/core/json/narrow.ts';
import { UntranslatableError } from '../../../src/dialects/contract/untranslatable.ts';
import { asLosslessObject } from '../../../src/dialects/json/lossless-json.ts';
import { requestToMessages } from '../../../src/dialects/translate/chat-to-messages.ts';
import { hello, png, text, toMessages, tool } from './examples.ts';

describe('messages', () => {
  const turns = (...messages: object[]): unknown => toMessages({ messages }).messages;
  const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"b":1,"a":2}' } };
  const use = { type: 'tool_use', id: 'c1', name: 'f', input: { b: 1, a: 2 } };

  test('joins system and developer messages from any position in order', () => {
    const messages = [
      { role: 'system', content: 'A' },
      hello,
      { role: 'developer', content: [text('B'), text('')] },
      { role: 'user', content: 'C' },
    ];
    expect(toMessages({ messages })).toMatchObject({
      system: [text('A'), text('B')],
      messages: [{ role: 'user', content: [text('Hi'), text('C')] }],
    });
  });

  test('merges consecutive messages with the same role', () => {
    expect(turns(hello, { role: 'user', content: [text(''), text(' '), text('B')] }, { role: 'assistant', content: '' }, hello)).toEqual([
      { role: 'user', content: [text('Hi'), text('B'), text('Hi')] },
    ]);
  });

  test('translates a message with 160,000 content parts', () => {
    const parts = Array.from({ length: 160_000 }, () => text('A'));
    expect(asArray(toMessages({ messages: [{ role: 'system', content: parts }] }).system)).toHaveLength(160_000);
    const [turn] = asArray(turns(hello, { role: 'user', content: parts }));
    expect(asLosslessObject(turn).content).toHaveLength(160_001);
  });

  test('adds a user message at the start if the conversation begins with the assistant', () => {
    const begin = { role: 'user', content: [text('Begin.')] };
    expect(turns({ role: 'assistant', content: 'Welcome' }, hello)).toEqual([
      begin,
      { role: 'assistant', content: [text('Welcome')] },
      { role: 'user', content: [text('Hi')] },
    ]);
    expect(turns({ role: 'system', content: 'A' })).toEqual([begin]);
  });

  test('translates an empty list of messages to an empty list', () => {
    expect(turns()).toEqual([]);
  });

  test('sends a final assistant message as a prefill', () => {
    expect(turns(hello, { role: 'assistant', content: 'It is \n' })).toEqual([
      { role: 'user', content: [text('Hi')] },
      { role: 'assistant', content: [text('It is')] },
    ]);
  });

  test("puts an assistant's tool calls after the text", () => {
    const message = { role: 'assistant', content: 'Wait', refusal: 'No', reasoning_content: 'Hm', tool_calls: [call] };
    expect(turns(hello, message, { role: 'tool', tool_call_id: 'c1', content: 'R' })).toEqual([
      { role: 'user', content: [text('Hi')] },
      { role: 'assistant', content: [text('Wait'), text('No'), use] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'R' }] },
    ]);
  });

  test('merges consecutive tool results into one user message', () => {
    const calls = { role: 'assistant', content: null, tool_calls: [call, { ...call, id: 'c2' }] };
    const results = [
      { role: 'tool', tool_call_id: 'c2', content: [text('two'), png] },
      { role: 'user', content: 'Go on' },
      { role: 'tool', tool_call_id: 'c1', content: '' },
    ];
    expect(turns(hello, calls, ...results)).toEqual([
      { role: 'user', content: [text('Hi')] },
      { role: 'assistant', content: [use, { ...use, id: 'c2' }] },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'c2',
            content: [text('two'), { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBO' } }],
          },
          { type: 'tool_result', tool_use_id: 'c1', content: '' },
          text('Go on'),
        ],
      },
    ]);
  });

  test("declares the tools of earlier calls but doesn't let the model call them", () => {
    const messages = [hello, { role: 'assistant', tool_calls: [call] }, { role: 'tool', tool_call_id: 'c1', content: 'R' }];
    expect(toMessages({ messages })).toMatchObject({
      tools: [{ name: 'f', input_schema: { type: 'object', properties: {} } }],
      tool_choice: { type: 'none' },
    });
  });

  describe('signed reasoning', () => {
    const thinking = { type: 'thinking', thinking: 'Hm', signature: 'c2ln' };
    const sealed = { type: 'redacted_thinking', data: 'ZGF0YQ==' };
    const format = 'anthropic-claude-v1';
    const details = [
      { type: 'reasoning.text', text: 'Hm', signature: 'c2ln', format, index: 0 },
      { type: 'reasoning.encrypted', data: 'ZGF0YQ==', format, index: 1 },
    ];
    const pieces = [
      { type: 'reasoning.text', text: 'H', index: 0 },
      { type: 'reasoning.text', text: 'm', index: 0 },
      { type: 'reasoning.text', signature: 'c2ln', index: 0 },
      { type: 'reasoning.encrypted', data: 'ZGF0YQ==', index: 1 },
    ];
    const result = { role: 'tool', tool_call_id: 'c1', content: 'R' };
    const loop = (members: object): Record<string, unknown> =>
      toMessages({
        messages: [hello, { role: 'assistant', content: null, tool_calls: [call], ...members }, result],
        ...{ tools: [tool], reasoning_effort: 'low', max_tokens: 9000 },
      });

    test.each<[string, object]>([
      ['reasoning_details', { reasoning_content: 'Hm', reasoning_details: details }],
      ['reasoning_details split by a stream', { reasoning: 'Hm', reasoning_details: pieces }],
      ['thinking_blocks', { reasoning_content: 'Hm', thinking_blocks: [thinking, sealed] }],
    ])('sends %s before the tool call', (_form, members) => {
      const request = loop(members);
      expect(request.thinking).toEqual({ type: 'enabled', budget_tokens: 1024 });
      expect(asArray(request.messages)[1]).toMatchObject({
        role: 'assistant',
        content: [thinking, sealed, { type: 'tool_use', id: 'c1' }],
      });
    });

    test('keeps signed reasoning even if it has no text', () => {
      const omitted = [{ type: 'reasoning.text', text: '', signature: 'c2ln', format, index: 0 }];
      expect(asArray(loop({ reasoning_details: omitted }).messages)[1]).toMatchObject({ content: [{ ...thinking, thinking: '' }, {}] });
    });

    test.each([
      [
        'from another vendor',
        [
          { type: 'reasoning.text', text: 'Hm', signature: 'x', format: 'google-gemini-v1' },
          { type: 'reasoning.encrypted', data: 'x', format: 'openai-responses-v1' },
        ],
      ],
      [
        'without a signature',
        [
          { type: 'reasoning.text', text: 'Hm', signature: null },
          { type: 'reasoning.summary', summary: 'Hm' },
        ],
      ],
      ['of an unknown type', [{ type: 'reasoning.server_tool_call' }, null, 7]],
    ])("doesn't send reasoning %s", (_what, entries) => {
      const request = loop({ reasoning_details: entries });
      expect(asArray(request.messages)[1]).toMatchObject({ content: [{ type: 'tool_use' }] });
      expect(request).not.toHaveProperty('thinking');
    });

    test('enables thinking if the first step of a turn has signed reasoning', () => {
      const first = { role: 'assistant', tool_calls: [call], reasoning_details: details };
      const messages = [hello, first, result, { role: 'assistant', tool_calls: [call] }, result];
      expect(toMessages({ messages, tools: [tool], reasoning_effort: 'low', max_tokens: 9000 })).toHaveProperty('thinking');
    });

    test('drops a message that contains only signed reasoning', () => {
      expect(turns(hello, { role: 'assistant', content: '', reasoning_details: details }, hello)).toEqual([
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Hi' },
            { type: 'text', text: 'Hi' },
          ],
        },
      ]);
    });
  });

  test("doesn't enable thinking in the middle of a tool loop that began without it", () => {
    const messages = [hello, { role: 'assistant', tool_calls: [call] }, { role: 'tool', tool_call_id: 'c1', content: 'R' }];
    expect(toMessages({ messages, tools: [tool], reasoning_effort: 'low', max_tokens: 9000 })).not.toHaveProperty('thinking');
  });

  test.each([
    ['an empty string', ''],
    ['nothing', undefined],
    ['null', null],
    ['an empty object', '{}'],
  ])('sends empty arguments for %s', (_name, argumentText) => {
    const bare = { id: 'c1', type: 'function', function: { name: 'f', arguments: argumentText } };
    expect(turns(hello, { role: 'assistant', tool_calls: [bare] })).toMatchObject([{}, { content: [{ input: {} }] }]);
  });

  test('keeps the spelling of numbers and the member order in tool arguments', () => {
    const argumentText = '{"z":12345678901234567890,"a":[1.0,1e5],"m":-0}';
    const body = {
      messages: [hello, { role: 'assistant', tool_calls: [{ ...call, function: { name: 'f', arguments: argumentText } }] }],
    };
    const request = JSON.stringify(requestToMessages(body, { model: 'm', maxTokens: 1, stream: false }));
    expect(request).toContain(`"input":${argumentText}`);
  });

  test('generates the same id for a tool call and its result if the id is missing', () => {
    const anonymous = { type: 'function', function: { name: 'f', arguments: '' } };
    const foreign = { ...anonymous, id: 'functions.f:0' };
    const messages = [
      hello,
      { role: 'assistant', tool_calls: [anonymous, foreign, anonymous] },
      { role: 'tool', tool_call_id: 'functions.f:0', content: 'b' },
      { role: 'tool', content: 'a' },
      { role: 'tool', content: 'c' },
    ];
    const [, uses, results] = [turns(...messages)].flat() as { content: { id?: string; tool_use_id?: string; content?: string }[] }[];
    const [first, second, third] = uses?.content.map(({ id }) => id) ?? [];
    expect(results?.content.map((block) => [block.tool_use_id, block.content])).toEqual([
      [second, 'b'],
      [first, 'a'],
      [third, 'c'],
    ]);
    expect(new Set([first, second, third]).size).toBe(3);
    for (const id of [first, second, third]) expect(id).toMatch(/^toolu_[a-zA-Z0-9_]+$/);
    expect(turns(...messages)).toEqual(turns(...messages));
  });
});

describe('images and files', () => {
  const partOf = (part: object): unknown => {
    const [first] = [toMessages({ messages: [{ role: 'user', content: [part] }] }).messages].flat();
    return (asLosslessObject(first).content as unknown[])[0];
  };
  const image = (url: unknown): object => ({ type: 'image_url', image_url: { url, detail: 'low' } });
  const file = (members: object): object => ({ type: 'file', file: members });

  test.each([
    ['a data URL', image('data:image/png;base64,iVBO'), { type: 'base64', media_type: 'image/png', data: 'iVBO' }],
    ['a data URL with spaces', image('data: image/png ; base64,iVBO'), { type: 'base64', media_type: 'image/png', data: 'iVBO' }],
    ['a data URL in upper case', image('DATA:image/WEBP;BASE64,iVBO'), { type: 'base64', media_type: 'image/webp', data: 'iVBO' }],
    ['the type image/jpg', image('data:image/jpg;base64,/9j/'), { type: 'base64', media_type: 'image/jpeg', data: '/9j/' }],
    ['a URL', image('https://a.example/b.gif'), { type: 'url', url: 'https://a.example/b.gif' }],
    ['a bare URL string', { type: 'image_url', image_url: 'https://a.example/b' }, { type: 'url', url: 'https://a.example/b' }],
  ])('converts an image given as %s', (_name, part, source) => {
    expect(partOf(part)).toEqual({ type: 'image', source });
  });

  test('converts a PDF file to a document block', () => {
    expect(partOf(file({ filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBE' }))).toEqual({
      type: 'document',
      title: 'a.pdf',
      source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' },
    });
  });

  test('converts a text file to a document block', () => {
    expect(partOf(file({ file_data: 'data:text/plain;base64,w6k=' }))).toEqual({
      type: 'document',
      source: { type: 'text', media_type: 'text/plain', data: 'é' },
    });
  });

  test("keeps the caller's cache_control breakpoints", () => {
    const mark = { cache_control: { type: 'ephemeral' } };
    expect(partOf({ ...text('A'), ...mark })).toEqual({ ...text('A'), ...mark });
  });

  test.each([
    [
      'audio',
      { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } },
      'input_audio is not supported by vendors that use the messages dialect',
    ],
    ['an unsupported image type', image('data:image/svg+xml;base64,AA'), 'an image must be PNG, JPEG, GIF or WebP'],
    ['a data URL that is not base64', image('data:image/png,AA'), 'the URL of an image must be a web URL or a base64 data URL'],
    ['a URL with another scheme', image('ftp://a.example/b.png'), 'the URL of an image must be a web URL or a base64 data URL'],
    ['an image without a URL', { type: 'image_url' }, 'an image must have a URL'],
    ['a file stored at the vendor', file({ file_id: 'file-1' }), 'a file must be sent inline; files stored at a vendor are not supported'],
    [
      'an unsupported file type',
      file({ file_data: 'data:application/zip;base64,AA' }),
      'a file must be PDF or plain text in a base64 data URL',
    ],
    [
      'an unknown part type',
      { type: 'video_url', video_url: { url: 'https://a.example' } },
      'vendors that use the messages dialect only accept text in this message',
    ],
    ['a part without a type', {}, 'vendors that use the messages dialect only accept text in this message'],
  ])('rejects a message with %s', (_name, part, message) => {
    const translate = () => partOf(part);
    expect(translate).toThrow(UntranslatableError);
    expect(translate).toThrow(new Error(message));
  });
});
