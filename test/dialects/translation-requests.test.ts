/** Vendor facts 8.1, row by row. */
import { describe, expect, test } from '@jest/globals';
import { type MessagesTarget, requestToMessages } from '../../src/dialects/chat-to-messages.ts';
import { type ChatTarget, requestToChat } from '../../src/dialects/messages-to-chat.ts';
import { answerToolName } from '../../src/dialects/translate-chat-tools.ts';
import { objectOf, parseLossless } from '../../src/dialects/translate-json.ts';
import { Untranslatable } from '../../src/dialects/translate-untranslatable.ts';

const hello = { role: 'user', content: 'Hi' };
const tool = { type: 'function', function: { name: 'f', description: 'F.', parameters: { type: 'object', properties: {} } } };
const nativeTool = { name: 'f', description: 'F.', input_schema: { type: 'object', properties: {} } };
const png = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBO' } };
const text = (value: string): object => ({ type: 'text', text: value });
const schema = { type: 'object', properties: { a: { type: 'number' } } };
const format = { type: 'json_schema', json_schema: { name: 'n', description: 'An a.', schema } };

function toMessages(members: object, target: Partial<MessagesTarget> = {}): Record<string, unknown> {
  const body = objectOf(parseLossless(JSON.stringify({ model: 'standard', messages: [hello], ...members })));
  return JSON.parse(JSON.stringify(requestToMessages(body, { model: 'claude', maxTokens: 4096, stream: false, ...target })));
}

function toChat(members: object, target: Partial<ChatTarget> = {}): Record<string, unknown> {
  const body = objectOf(parseLossless(JSON.stringify({ model: 'standard', max_tokens: 50, messages: [hello], ...members })));
  return JSON.parse(JSON.stringify(requestToChat(body, { model: 'gpt', stream: false, ...target })));
}

describe('a chat request for a vendor of messages', () => {
  test('holds the model, a bound and the turns, and nothing else', () => {
    expect(toMessages({})).toEqual({ model: 'claude', max_tokens: 4096, messages: [{ role: 'user', content: [text('Hi')] }] });
  });

  test.each<[string, object, object]>([
    ['max_tokens', { max_tokens: 7 }, { max_tokens: 7 }],
    ['max_completion_tokens before max_tokens', { max_tokens: 7, max_completion_tokens: 9 }, { max_tokens: 9 }],
    ['bounds that are null', { max_tokens: null, max_completion_tokens: null }, { max_tokens: 4096 }],
    ['temperature', { temperature: 0.5 }, { temperature: 0.5 }],
    ['temperature above 1', { temperature: 1.7 }, { temperature: 1 }],
    ['temperature of zero', { temperature: 0 }, { temperature: 0 }],
    ['top_p', { top_p: 0.9 }, { top_p: 0.9 }],
    ['top_p of 1 beside a temperature', { top_p: 1, temperature: 0.5 }, { temperature: 0.5, top_p: undefined }],
    ['a stop text', { stop: 'END' }, { stop_sequences: ['END'] }],
    ['stop texts', { stop: ['A', 'B'] }, { stop_sequences: ['A', 'B'] }],
    ['stop that is null', { stop: null }, { stop_sequences: undefined }],
    ['user', { user: 'u-1' }, { metadata: { user_id: 'u-1' } }],
    ['safety_identifier', { safety_identifier: 's-1' }, { metadata: { user_id: 's-1' } }],
    ['n of 1', { n: 1 }, { n: undefined }],
    ['tools', { tools: [tool] }, { tools: [nativeTool] }],
    [
      'a tool without parameters',
      { tools: [{ type: 'function', function: { name: 'f' } }] },
      { tools: [{ name: 'f', input_schema: { type: 'object', properties: {} } }] },
    ],
    [
      'a schema without type, whole',
      {
        tools: [
          { type: 'function', function: { name: 'f', parameters: { properties: {}, $defs: { x: true }, additionalProperties: false } } },
        ],
      },
      { tools: [{ name: 'f', input_schema: { type: 'object', properties: {}, $defs: { x: true }, additionalProperties: false } }] },
    ],
    ['no tools', { tools: [], tool_choice: 'auto' }, { tools: undefined, tool_choice: undefined }],
    ['tool_choice auto', { tools: [tool], tool_choice: 'auto' }, { tool_choice: { type: 'auto' } }],
    ['tool_choice none', { tools: [tool], tool_choice: 'none' }, { tool_choice: { type: 'none' } }],
    ['tool_choice required', { tools: [tool], tool_choice: 'required' }, { tool_choice: { type: 'any' } }],
    [
      'tool_choice of a function',
      { tools: [tool], tool_choice: { type: 'function', function: { name: 'f' } } },
      { tool_choice: { type: 'tool', name: 'f' } },
    ],
    [
      'parallel calls off',
      { tools: [tool], parallel_tool_calls: false },
      { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
    ],
    [
      'parallel calls off for a required call',
      { tools: [tool], tool_choice: 'required', parallel_tool_calls: false },
      { tool_choice: { type: 'any', disable_parallel_tool_use: true } },
    ],
    [
      'parallel calls off where none is allowed',
      { tools: [tool], tool_choice: 'none', parallel_tool_calls: false },
      { tool_choice: { type: 'none' } },
    ],
    ['parallel calls off without tools', { parallel_tool_calls: false }, { tool_choice: undefined }],
    ['parallel calls on', { tools: [tool], parallel_tool_calls: true }, { tool_choice: undefined }],
    ['any text as response_format', { response_format: { type: 'text' } }, { tools: undefined, output_config: undefined }],
    ['low effort', { reasoning_effort: 'low', max_tokens: 9000 }, { thinking: { type: 'enabled', budget_tokens: 1024 } }],
    ['medium effort', { reasoning_effort: 'medium', max_tokens: 9000 }, { thinking: { type: 'enabled', budget_tokens: 4096 } }],
    ['high effort', { reasoning_effort: 'high', max_tokens: 40000 }, { thinking: { type: 'enabled', budget_tokens: 16384 } }],
    [
      'high effort with little room',
      { reasoning_effort: 'high', max_tokens: 9000 },
      { thinking: { type: 'enabled', budget_tokens: 4096 } },
    ],
    ['effort with no room', { reasoning_effort: 'low', max_tokens: 1500 }, { thinking: undefined }],
    ['no effort', { reasoning_effort: 'none', max_tokens: 9000 }, { thinking: undefined }],
    ['an effort that nobody knows', { reasoning_effort: 'toString', max_tokens: 9000 }, { thinking: undefined }],
    [
      'a thinking model takes no temperature',
      { reasoning_effort: 'low', max_tokens: 9000, temperature: 0.5, top_p: 0.5 },
      { thinking: { type: 'enabled', budget_tokens: 1024 } },
    ],
    [
      'effort beside a forced call',
      { reasoning_effort: 'low', max_tokens: 9000, tools: [tool], tool_choice: 'required' },
      { tool_choice: { type: 'any' } },
    ],
    [
      'plain parameters are dropped',
      {
        seed: 1,
        logprobs: true,
        top_logprobs: 2,
        logit_bias: { a: 1 },
        presence_penalty: 1,
        frequency_penalty: 1,
        store: true,
        service_tier: 'flex',
        metadata: { a: 'b' },
        verbosity: 'low',
        stream_options: { include_usage: true },
        prediction: {},
        modalities: ['text'],
        never_heard_of: 1,
      },
      { messages: [{ role: 'user', content: [text('Hi')] }] },
    ],
  ])('%s', (_name, members, expected) => {
    // What every row has, unless it says something else; nothing beside it may be sent.
    const max_tokens = 'max_tokens' in members ? (members.max_tokens ?? 4096) : 4096;
    const tools = 'tools' in members ? [nativeTool] : undefined;
    const messages = [{ role: 'user', content: [text('Hi')] }];
    expect(toMessages(members)).toEqual({ model: 'claude', messages, max_tokens, tools, ...expected });
  });

  test('stream', () => {
    expect(toMessages({}, { stream: true }).stream).toBe(true);
    expect(toMessages({ stream: true })).not.toHaveProperty('stream');
  });

  test('a model that wants an effort gets one, a model that does not think gets none', () => {
    const members = { reasoning_effort: 'high', response_format: format };
    expect(toMessages(members, { thinking: 'adaptive', supportsSchema: true })).toMatchObject({
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high', format: { type: 'json_schema', schema } },
    });
    expect(toMessages({ reasoning_effort: 'high', max_tokens: 90000 }, { thinking: 'none' })).not.toHaveProperty('thinking');
  });

  test('strict tools reach models that know them', () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: schema, strict: true } }];
    expect(toMessages({ tools }, { supportsSchema: true }).tools).toEqual([{ name: 'f', input_schema: schema, strict: true }]);
    expect(toMessages({ tools }).tools).toEqual([{ name: 'f', input_schema: schema }]);
  });

  describe('response_format', () => {
    const answerTool = { name: answerToolName, description: expect.stringContaining('An a.'), input_schema: schema };
    const onlyAnswer = { type: 'tool', name: answerToolName, disable_parallel_tool_use: true };

    test('is output_config.format where the model knows it', () => {
      expect(toMessages({ response_format: format }, { supportsSchema: true })).toMatchObject({
        output_config: { format: { type: 'json_schema', schema } },
      });
    });

    test('is a tool that must be called where it does not', () => {
      expect(toMessages({ response_format: format })).toMatchObject({ tools: [answerTool], tool_choice: onlyAnswer });
    });

    test('leaves the model the choice between the answer and the tools of the caller', () => {
      expect(toMessages({ response_format: format, tools: [tool] })).toMatchObject({
        tools: [nativeTool, answerTool],
        tool_choice: { type: 'any', disable_parallel_tool_use: true },
      });
      expect(toMessages({ response_format: format, tools: [tool], tool_choice: 'none' }).tool_choice).toEqual(onlyAnswer);
    });

    test('does not matter where a tool must be called', () => {
      const request = toMessages({ response_format: format, tools: [tool], tool_choice: 'required' });
      expect(request).toMatchObject({ tools: [nativeTool], tool_choice: { type: 'any' } });
    });

    test('json_object is any object', () => {
      const expected = {
        tools: [{ name: answerToolName, input_schema: { type: 'object', additionalProperties: true } }],
        tool_choice: onlyAnswer,
      };
      expect(toMessages({ response_format: { type: 'json_object' } })).toMatchObject(expected);
      expect(toMessages({ response_format: { type: 'json_object' } }, { supportsSchema: true })).toMatchObject(expected);
    });
  });

  describe('messages', () => {
    const turns = (...messages: object[]): unknown => toMessages({ messages }).messages;
    const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"b":1,"a":2}' } };
    const use = { type: 'tool_use', id: 'c1', name: 'f', input: { b: 1, a: 2 } };

    test('system and developer texts of any position are joined in order', () => {
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

    test('neighbours of one role are one turn, blank texts are left out', () => {
      expect(turns(hello, { role: 'user', content: [text(''), text(' '), text('B')] }, { role: 'assistant', content: '' }, hello)).toEqual([
        { role: 'user', content: [text('Hi'), text('B'), text('Hi')] },
      ]);
    });

    test('the user begins, also where there are only instructions', () => {
      const begin = { role: 'user', content: [text('Begin.')] };
      expect(turns({ role: 'assistant', content: 'Welcome' }, hello)).toEqual([
        begin,
        { role: 'assistant', content: [text('Welcome')] },
        { role: 'user', content: [text('Hi')] },
      ]);
      expect(turns({ role: 'system', content: 'A' })).toEqual([begin]);
    });

    test('an empty list goes to the vendor', () => {
      expect(turns()).toEqual([]);
    });

    test('an assistant at the end begins the answer, without white space at its end', () => {
      expect(turns(hello, { role: 'assistant', content: 'It is \n' })).toEqual([
        { role: 'user', content: [text('Hi')] },
        { role: 'assistant', content: [text('It is')] },
      ]);
    });

    test('tool calls follow the text; a refusal is text; reasoning stays behind', () => {
      const message = { role: 'assistant', content: 'Wait', refusal: 'No', reasoning_content: 'Hm', tool_calls: [call] };
      expect(turns(hello, message, { role: 'tool', tool_call_id: 'c1', content: 'R' })).toEqual([
        { role: 'user', content: [text('Hi')] },
        { role: 'assistant', content: [text('Wait'), text('No'), use] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'R' }] },
      ]);
    });

    test('tool results are one user message, and what the user says comes behind them', () => {
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

    test('a conversation with tool calls brings its tools, which may not be called', () => {
      const messages = [hello, { role: 'assistant', tool_calls: [call] }, { role: 'tool', tool_call_id: 'c1', content: 'R' }];
      expect(toMessages({ messages })).toMatchObject({
        tools: [{ name: 'f', input_schema: { type: 'object', properties: {} } }],
        tool_choice: { type: 'none' },
      });
    });

    test('a model does not think in the middle of a turn that it began without thinking', () => {
      const messages = [hello, { role: 'assistant', tool_calls: [call] }, { role: 'tool', tool_call_id: 'c1', content: 'R' }];
      expect(toMessages({ messages, tools: [tool], reasoning_effort: 'low', max_tokens: 9000 })).not.toHaveProperty('thinking');
    });

    test.each([
      ['an empty text', ''],
      ['nothing', undefined],
      ['null', null],
      ['no members', '{}'],
    ])('arguments that are %s mean none', (_name, argumentText) => {
      const bare = { id: 'c1', type: 'function', function: { name: 'f', arguments: argumentText } };
      expect(turns(hello, { role: 'assistant', tool_calls: [bare] })).toMatchObject([{}, { content: [{ input: {} }] }]);
    });

    test('numbers and the order of arguments survive', () => {
      const argumentText = '{"z":12345678901234567890,"a":[1.0,1e5],"m":-0}';
      const body = {
        messages: [hello, { role: 'assistant', tool_calls: [{ ...call, function: { name: 'f', arguments: argumentText } }] }],
      };
      const request = JSON.stringify(requestToMessages(body, { model: 'm', maxTokens: 1, stream: false }));
      expect(request).toContain(`"input":${argumentText}`);
    });

    test('ids that are missing, or that the vendor would refuse, are made, the same for call and result', () => {
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
      return (objectOf(first).content as unknown[])[0];
    };
    const image = (url: unknown): object => ({ type: 'image_url', image_url: { url, detail: 'low' } });
    const file = (members: object): object => ({ type: 'file', file: members });

    test.each([
      ['a data URL', image('data:image/png;base64,iVBO'), { type: 'base64', media_type: 'image/png', data: 'iVBO' }],
      ['a data URL in capitals', image('DATA:image/WEBP;BASE64,iVBO'), { type: 'base64', media_type: 'image/webp', data: 'iVBO' }],
      ['the usual misspelling', image('data:image/jpg;base64,/9j/'), { type: 'base64', media_type: 'image/jpeg', data: '/9j/' }],
      ['a web address', image('https://a.example/b.gif'), { type: 'url', url: 'https://a.example/b.gif' }],
      ['a bare address', { type: 'image_url', image_url: 'https://a.example/b' }, { type: 'url', url: 'https://a.example/b' }],
    ])('%s', (_name, part, source) => {
      expect(partOf(part)).toEqual({ type: 'image', source });
    });

    test('a PDF is a document', () => {
      expect(partOf(file({ filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBE' }))).toEqual({
        type: 'document',
        title: 'a.pdf',
        source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' },
      });
    });

    test('a text file is a document', () => {
      expect(partOf(file({ file_data: 'data:text/plain;base64,w6k=' }))).toEqual({
        type: 'document',
        source: { type: 'text', media_type: 'text/plain', data: 'é' },
      });
    });

    test('cache marks of the caller reach the vendor that knows them', () => {
      const mark = { cache_control: { type: 'ephemeral' } };
      expect(partOf({ ...text('A'), ...mark })).toEqual({ ...text('A'), ...mark });
    });

    test.each([
      ['sound', { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }],
      ['a picture of another kind', image('data:image/svg+xml;base64,AA')],
      ['a data URL that is not base64', image('data:image/png,AA')],
      ['another scheme', image('ftp://a.example/b.png')],
      ['an image without address', { type: 'image_url' }],
      ['a file at the vendor', file({ file_id: 'file-1' })],
      ['a file of another kind', file({ file_data: 'data:application/zip;base64,AA' })],
      ['something new', { type: 'video_url', video_url: { url: 'https://a.example' } }],
      ['a part without type', {}],
    ])('%s is refused', (_name, part) => {
      expect(() => partOf(part)).toThrow(Untranslatable);
    });
  });

  test.each<[string, object]>([
    ['several answers', { n: 2 }],
    ['sound as answer', { modalities: ['text', 'audio'] }],
    ['a search', { web_search_options: {} }],
    ['functions of the old form', { functions: [{ name: 'f' }] }],
    ['a tool of the vendor', { tools: [{ type: 'web_search' }] }],
    ['a custom tool', { tools: [{ type: 'custom', custom: { name: 'f' } }] }],
    ["a tool with the gateway's own name", { tools: [{ type: 'function', function: { name: answerToolName } }] }],
    ['a choice among some tools', { tools: [tool], tool_choice: { type: 'allowed_tools' } }],
    ['a new answer format', { response_format: { type: 'grammar' } }],
    ['a new role', { messages: [{ role: 'function', name: 'f', content: '1' }] }],
    ['messages that are none', { messages: 'Hi' }],
    ['a call of the old form', { messages: [{ role: 'assistant', function_call: { name: 'f', arguments: '' } }] }],
    ['sound of the assistant', { messages: [{ role: 'assistant', audio: { id: 'a' } }] }],
    ['a custom call', { messages: [{ role: 'assistant', tool_calls: [{ id: 'c', type: 'custom', custom: {} }] }] }],
    [
      'arguments that are no JSON',
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'c', function: { name: 'f', arguments: '{"a' } }] }] },
    ],
    [
      'arguments that are no object',
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'c', function: { name: 'f', arguments: '[1]' } }] }] },
    ],
    ['a result without a call', { messages: [{ role: 'tool', content: 'R' }] }],
    ['an image in the instructions', { messages: [{ role: 'system', content: [png] }] }],
  ])('%s is refused, in words of our own', (_name, members) => {
    expect(() => toMessages(members)).toThrow(Untranslatable);
    expect(() => toMessages(members)).toThrow(/^[a-z_][^"]{10,100}$/);
  });
});

describe('a messages request for a vendor of chat', () => {
  test('holds the model, the bound and the messages, and nothing else', () => {
    expect(toChat({})).toEqual({ model: 'gpt', max_completion_tokens: 50, messages: [hello] });
  });

  test.each<[string, object, object]>([
    ['temperature and top_p', { temperature: 0.5, top_p: 0.9 }, { temperature: 0.5, top_p: 0.9 }],
    ['top_k is dropped', { top_k: 5, service_tier: 'auto', context_management: {} }, { top_k: undefined }],
    ['stop sequences', { stop_sequences: ['A', 'B'] }, { stop: ['A', 'B'] }],
    ['no stop sequences', { stop_sequences: [] }, { stop: undefined }],
    ['the end user', { metadata: { user_id: 'u-1' } }, { user: 'u-1' }],
    ['tools', { tools: [{ ...nativeTool, cache_control: { type: 'ephemeral' } }] }, { tools: [tool] }],
    [
      'a tool of type custom',
      { tools: [{ type: 'custom', ...nativeTool, strict: true }] },
      { tools: [{ type: 'function', function: { ...tool.function, strict: true } }] },
    ],
    ['tool_choice auto', { tools: [nativeTool], tool_choice: { type: 'auto' } }, { tool_choice: 'auto' }],
    ['tool_choice any', { tools: [nativeTool], tool_choice: { type: 'any' } }, { tool_choice: 'required' }],
    ['tool_choice none', { tools: [nativeTool], tool_choice: { type: 'none' } }, { tool_choice: 'none' }],
    [
      'tool_choice of a tool, one at a time',
      { tools: [nativeTool], tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true } },
      { tool_choice: { type: 'function', function: { name: 'f' } }, parallel_tool_calls: false },
    ],
    [
      'a schema for the answer',
      { output_config: { format: { type: 'json_schema', schema } } },
      { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } } },
    ],
    ['thinking of a small budget', { thinking: { type: 'enabled', budget_tokens: 1024 } }, { reasoning_effort: 'low' }],
    ['thinking of a middle budget', { thinking: { type: 'enabled', budget_tokens: 4096 } }, { reasoning_effort: 'medium' }],
    ['thinking of a large budget', { thinking: { type: 'enabled', budget_tokens: 20000 } }, { reasoning_effort: 'high' }],
    ['thinking that adapts', { thinking: { type: 'adaptive' } }, { reasoning_effort: undefined }],
    [
      'thinking that adapts, with effort',
      { thinking: { type: 'adaptive' }, output_config: { effort: 'max' } },
      { reasoning_effort: 'high' },
    ],
    ['thinking that is off', { thinking: { type: 'disabled' }, output_config: { effort: 'high' } }, { reasoning_effort: undefined }],
  ])('%s', (_name, members, expected) => {
    const tools = 'tools' in members ? [tool] : undefined;
    expect(toChat(members)).toEqual({ model: 'gpt', max_completion_tokens: 50, messages: [hello], tools, ...expected });
  });

  test('stream asks for usage', () => {
    expect(toChat({}, { stream: true })).toMatchObject({ stream: true, stream_options: { include_usage: true } });
  });

  test('vendors and models differ in what they know', () => {
    const request = toChat({ thinking: { type: 'enabled', budget_tokens: 1024 } }, { boundMember: 'max_tokens', reasons: false });
    expect(request).toEqual({ model: 'gpt', max_tokens: 50, messages: [hello] });
  });

  describe('messages', () => {
    const messagesOf = (...messages: object[]): unknown => toChat({ messages }).messages;
    const use = { type: 'tool_use', id: 't1', name: 'f', input: { b: 1, a: 2 } };
    const call = { id: 't1', type: 'function', function: { name: 'f', arguments: '{"b":1,"a":2}' } };
    const mark = { cache_control: { type: 'ephemeral' } };

    test.each([
      ['a text', 'Be brief.', 'Be brief.'],
      ['blocks', [{ ...text('A'), ...mark }, text('B')], 'A\n\nB'],
    ])('system as %s is one message at the front', (_name, system, content) => {
      expect(toChat({ system }).messages).toEqual([{ role: 'system', content }, hello]);
    });

    test.each([[''], [[]], [null]])('system that is %j is none', (system) => {
      expect(toChat({ system }).messages).toEqual([hello]);
    });

    test('one text stays a text, several stay parts', () => {
      expect(messagesOf({ role: 'user', content: [{ ...text('A'), ...mark }] })).toEqual([{ role: 'user', content: 'A' }]);
      expect(messagesOf({ role: 'user', content: [text('A'), text(''), text('B')] })).toEqual([
        { role: 'user', content: [text('A'), text('B')] },
      ]);
    });

    test('texts of the assistant are one, thinking stays behind', () => {
      const content = [
        { type: 'thinking', thinking: 'Hm', signature: 'x' },
        { type: 'redacted_thinking', data: 'x' },
        text('A '),
        { ...text('B'), citations: [] },
      ];
      expect(messagesOf(hello, { role: 'assistant', content }, hello)).toEqual([hello, { role: 'assistant', content: 'A B' }, hello]);
    });

    test('tool results come in front of what the user says, with a note where they are errors', () => {
      const results = [
        { type: 'tool_result', tool_use_id: 't2', content: [text('bad')], is_error: true },
        text('And now?'),
        { type: 'tool_result', tool_use_id: 't1' },
      ];
      expect(messagesOf(hello, { role: 'assistant', content: [use, { ...use, id: 't2' }] }, { role: 'user', content: results })).toEqual([
        hello,
        { role: 'assistant', content: null, tool_calls: [call, { ...call, id: 't2' }] },
        { role: 'tool', tool_call_id: 't2', content: 'Error: bad' },
        { role: 'tool', tool_call_id: 't1', content: '' },
        { role: 'user', content: 'And now?' },
      ]);
    });

    test('an error without words is still an error', () => {
      const result = { type: 'tool_result', tool_use_id: 't1', is_error: true };
      expect(messagesOf(hello, { role: 'assistant', content: [use] }, { role: 'user', content: [result] })).toMatchObject([
        {},
        {},
        { role: 'tool', content: 'Error:' },
      ]);
    });

    test('an image in a tool result follows in the message of the user', () => {
      const content = [text('see'), { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } }];
      expect(
        messagesOf(
          hello,
          { role: 'assistant', content: [use] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content }] },
        ),
      ).toEqual([
        hello,
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 't1', content: 'see' },
        {
          role: 'user',
          content: [text('Attached to the result of tool call t1:'), { type: 'image_url', image_url: { url: 'https://a.example/b.png' } }],
        },
      ]);
    });

    test('images and documents', () => {
      const content = [
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBO' }, ...mark },
        { type: 'document', title: 'a.pdf', context: 'Read it.', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' } },
        { type: 'document', title: 'T', source: { type: 'text', media_type: 'text/plain', data: 'D' } },
        { type: 'document', source: { type: 'content', content: [text('C')] } },
      ];
      expect(messagesOf({ role: 'user', content })).toEqual([
        {
          role: 'user',
          content: [
            png,
            text('Read it.'),
            { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBE' } },
            text('T\n\nD'),
            text('C'),
          ],
        },
      ]);
    });

    test('ids that are missing, or too long for the vendor, are made, the same for call and result', () => {
      const long = `toolu_${'x'.repeat(60)}`;
      const uses = [use, { ...use, id: undefined }, { ...use, id: long }];
      const results = [long, 't1', undefined].map((id) => ({ type: 'tool_result', tool_use_id: id, content: id ?? 'none' }));
      const sent = messagesOf(hello, { role: 'assistant', content: uses }, { role: 'user', content: results });
      const [, assistant, ...answers] = sent as [object, { tool_calls: { id: string }[] }, ...{ tool_call_id: string; content: string }[]];
      const ids = assistant.tool_calls.map(({ id }) => id);
      expect(answers.map((answer) => [answer.tool_call_id, answer.content])).toEqual([
        [ids[2], long],
        [ids[0], 't1'],
        [ids[1], 'none'],
      ]);
      expect(ids).toEqual(['t1', expect.stringMatching(/^call_/), expect.stringMatching(/^call_.{1,35}$/)]);
    });
  });

  test('numbers and the order of inputs survive', () => {
    const input = '{"z":12345678901234567890,"a":[1.0,1e5],"m":-0}';
    const body = `{"max_tokens":5.0,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":${input}}]},{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object","maximum":1.0}}]}`;
    const request = JSON.stringify(requestToChat(objectOf(parseLossless(body)), { model: 'm', stream: false }));
    expect(request).toContain(JSON.stringify(input));
    expect(request).toContain('"maximum":1.0');
    expect(request).toContain('"max_completion_tokens":5.0');
  });

  test.each<[string, object]>([
    ['an answer that is begun', { messages: [hello, { role: 'assistant', content: '{' }] }],
    ['more than four stop sequences', { stop_sequences: ['a', 'b', 'c', 'd', 'e'] }],
    ['a tool of the vendor', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }],
    ['servers of tools', { mcp_servers: [{ type: 'url', url: 'https://a.example', name: 'a' }] }],
    ['a container', { container: 'c-1' }],
    ['a new tool choice', { tool_choice: { type: 'some' } }],
    ['a new answer format', { output_config: { format: { type: 'grammar' } } }],
    ['a call of a server tool', { messages: [{ role: 'assistant', content: [{ type: 'server_tool_use' }] }, hello] }],
    ['a search result', { messages: [{ role: 'user', content: [{ type: 'search_result' }] }] }],
    ['an image at the vendor', { messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'file', file_id: 'f' } }] }] }],
    [
      'a document at an address',
      { messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'url', url: 'https://a' } }] }] },
    ],
    ['a new role', { messages: [{ role: 'tool', content: 'x' }] }],
    ['messages that are none', { messages: {} }],
    ['a result without a call', { messages: [{ role: 'user', content: [{ type: 'tool_result' }] }] }],
    [
      'an input that is no object',
      { messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: [1] }] }, hello] },
    ],
  ])('%s is refused, in words of our own', (_name, members) => {
    expect(() => toChat(members)).toThrow(Untranslatable);
    expect(() => toChat(members)).toThrow(/^[a-z_][^"]{10,100}$/);
  });
});
