/** Tests the translation of messages requests for chat vendors, field by field. */
import { describe, expect, test } from '@jest/globals';
import { asArray } from '../../../src/core/json/narrow.ts';
import { UntranslatableError } from '../../../src/dialects/contract/untranslatable.ts';
import { asLosslessObject } from '../../../src/dialects/json/lossless-json.ts';
import { parseLossless } from '../../../src/dialects/json/parse-lossless.ts';
import { requestToChat } from '../../../src/dialects/translate/messages-to-chat.ts';
import { createChanges } from '../../../src/dialects/translate/request-changes.ts';
import { hello, nativeTool, png, schema, text, toChat, tool } from './examples.ts';

describe('a messages request for a chat vendor', () => {
  test('a minimal messages request becomes a model, a token limit and messages', () => {
    expect(toChat({})).toEqual({ model: 'gpt', max_completion_tokens: 50, messages: [hello] });
  });

  test.each<[string, object, object]>([
    ['temperature and top_p', { temperature: 0.5, top_p: 0.9 }, { temperature: 0.5, top_p: 0.9 }],
    ['top_k, which is dropped', { top_k: 5, service_tier: 'auto', context_management: {} }, { top_k: undefined }],
    ['stop sequences', { stop_sequences: ['A', 'B'] }, { stop: ['A', 'B'] }],
    ['no stop sequences', { stop_sequences: [] }, { stop: undefined }],
    ['the end user', { metadata: { user_id: 'u-1' } }, { user: 'u-1' }],
    ['tools', { tools: [{ ...nativeTool, cache_control: { type: 'ephemeral' } }] }, { tools: [tool] }],
    [
      'a tool with type custom',
      { tools: [{ type: 'custom', ...nativeTool, strict: true }] },
      { tools: [{ type: 'function', function: { ...tool.function, strict: true } }] },
    ],
    ['tool_choice auto', { tools: [nativeTool], tool_choice: { type: 'auto' } }, { tool_choice: 'auto' }],
    ['tool_choice any', { tools: [nativeTool], tool_choice: { type: 'any' } }, { tool_choice: 'required' }],
    ['tool_choice none', { tools: [nativeTool], tool_choice: { type: 'none' } }, { tool_choice: 'none' }],
    [
      'tool_choice with one tool at a time',
      { tools: [nativeTool], tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true } },
      { tool_choice: { type: 'function', function: { name: 'f' } }, parallel_tool_calls: false },
    ],
    [
      'a schema for the response',
      { output_config: { format: { type: 'json_schema', schema } } },
      { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } } },
    ],
    ['thinking with a small budget', { thinking: { type: 'enabled', budget_tokens: 1024 } }, { reasoning_effort: 'low' }],
    ['thinking with a medium budget', { thinking: { type: 'enabled', budget_tokens: 4096 } }, { reasoning_effort: 'medium' }],
    ['thinking with a large budget', { thinking: { type: 'enabled', budget_tokens: 20000 } }, { reasoning_effort: 'high' }],
    ['adaptive thinking', { thinking: { type: 'adaptive' } }, { reasoning_effort: undefined }],
    [
      'adaptive thinking with an effort',
      { thinking: { type: 'adaptive' }, output_config: { effort: 'max' } },
      { reasoning_effort: 'high' },
    ],
    ['disabled thinking', { thinking: { type: 'disabled' }, output_config: { effort: 'high' } }, { reasoning_effort: undefined }],
  ])('translates a messages request for a chat vendor: %s', (_name, members, expected) => {
    const tools = 'tools' in members ? [tool] : undefined;
    expect(toChat(members)).toEqual({ model: 'gpt', max_completion_tokens: 50, messages: [hello], tools, ...expected });
  });

  test('requests usage in streamed responses', () => {
    expect(toChat({}, { stream: true })).toMatchObject({ stream: true, stream_options: { include_usage: true } });
  });

  test("omits parameters that the vendor doesn't support", () => {
    const request = toChat({ thinking: { type: 'enabled', budget_tokens: 1024 } }, { maxTokensField: 'max_tokens', reasons: false });
    expect(request).toEqual({ model: 'gpt', max_tokens: 50, messages: [hello] });
  });

  describe('messages', () => {
    const messagesOf = (...messages: object[]): unknown => toChat({ messages }).messages;
    const use = { type: 'tool_use', id: 't1', name: 'f', input: { b: 1, a: 2 } };
    const call = { id: 't1', type: 'function', function: { name: 'f', arguments: '{"b":1,"a":2}' } };
    const mark = { cache_control: { type: 'ephemeral' } };

    test.each([
      ['a string', 'Be brief.', 'Be brief.'],
      ['blocks', [{ ...text('A'), ...mark }, text('B')], 'A\n\nB'],
    ])('turns a system prompt given as %s into one message at the start', (_name, system, content) => {
      expect(toChat({ system }).messages).toEqual([{ role: 'system', content }, hello]);
    });

    test.each([[''], [[]], [null]])('omits an empty system prompt: %j', (system) => {
      expect(toChat({ system }).messages).toEqual([hello]);
    });

    test('converts a single text block to a string and several to parts', () => {
      expect(messagesOf({ role: 'user', content: [{ ...text('A'), ...mark }] })).toEqual([{ role: 'user', content: 'A' }]);
      expect(messagesOf({ role: 'user', content: [text('A'), text(''), text('B')] })).toEqual([
        { role: 'user', content: [text('A'), text('B')] },
      ]);
    });

    test('joins assistant text blocks and drops thinking', () => {
      const content = [
        { type: 'thinking', thinking: 'Hm', signature: 'x' },
        { type: 'redacted_thinking', data: 'x' },
        text('A '),
        { ...text('B'), citations: [] },
      ];
      expect(messagesOf(hello, { role: 'assistant', content }, hello)).toEqual([hello, { role: 'assistant', content: 'A B' }, hello]);
    });

    describe('thinking', () => {
      const thinking = { type: 'thinking', thinking: 'Hm', signature: 'c2ln' };
      const sealed = { type: 'redacted_thinking', data: 'ZGF0YQ==' };
      const use = { type: 'tool_use', id: 't', name: 'f', input: {} };
      const results = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'R' }] };
      const said = (takesReasoning: 'none' | 'text' | 'details', ...messages: object[]): unknown[] =>
        asArray(toChat({ messages }, { takesReasoning }).messages).filter((message) => asLosslessObject(message).role === 'assistant');
      const loop = [hello, { role: 'assistant', content: [thinking, sealed, use] }, results];
      const answered = { role: 'assistant', content: null, tool_calls: [{ id: 't' }] };

      test('drops thinking blocks for a vendor that would reject them', () => {
        expect(said('none', ...loop)).toEqual([expect.not.objectContaining({ reasoning_content: expect.anything() })]);
      });

      test('sends thinking as reasoning_content to a vendor that accepts it', () => {
        expect(said('text', ...loop)).toMatchObject([{ ...answered, reasoning_content: 'Hm' }]);
        expect(said('text', ...loop)).not.toMatchObject([{ reasoning_details: expect.anything() }]);
        const unsigned = { role: 'assistant', content: [{ ...thinking, signature: '' }, text('A')] };
        expect(said('text', hello, unsigned, hello)).toEqual([{ role: 'assistant', content: 'A', reasoning_content: 'Hm' }]);
      });

      test('sends thinking as reasoning_details to a vendor that accepts it', () => {
        const format = 'anthropic-claude-v1';
        const reasoning_details = [
          { type: 'reasoning.text', text: 'Hm', signature: 'c2ln', format, index: 0 },
          { type: 'reasoning.encrypted', data: 'ZGF0YQ==', format, index: 1 },
        ];
        expect(said('details', ...loop)).toMatchObject([{ ...answered, reasoning_content: 'Hm', reasoning_details }]);
      });

      test('adds blank reasoning_content to tool calls if the vendor requires it', () => {
        const silent = [hello, { role: 'assistant', content: [use] }, results, { role: 'assistant', content: 'A' }, hello];
        expect(said('text', ...silent)).toMatchObject([
          { ...answered, reasoning_content: ' ' },
          { content: 'A', reasoning_content: ' ' },
        ]);
        expect(said('text', hello, { role: 'assistant', content: 'A' }, hello)).toEqual([{ role: 'assistant', content: 'A' }]);
      });
    });

    test('puts tool results before the text of the same user message', () => {
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

    test('marks a failed tool result without text as an error', () => {
      const result = { type: 'tool_result', tool_use_id: 't1', is_error: true };
      expect(messagesOf(hello, { role: 'assistant', content: [use] }, { role: 'user', content: [result] })).toMatchObject([
        {},
        {},
        { role: 'tool', content: 'Error:' },
      ]);
    });

    test('moves images from a tool result to the next user message', () => {
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

    test('converts images and documents', () => {
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

    test('replaces missing or overlong tool call ids', () => {
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

  test('keeps the spelling of numbers and the member order in tool inputs', () => {
    const input = '{"z":12345678901234567890,"a":[1.0,1e5],"m":-0}';
    const body = `{"max_tokens":5.0,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":${input}}]},{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object","maximum":1.0}}]}`;
    const request = JSON.stringify(requestToChat(asLosslessObject(parseLossless(body)), { model: 'm', stream: false }));
    expect(request).toContain(JSON.stringify(input));
    expect(request).toContain('"maximum":1.0');
    expect(request).toContain('"max_completion_tokens":5.0');
  });

  test.each([
    [{ tools: [nativeTool] }, []],
    [{}, ['tool_choice.disable_parallel_tool_use']],
  ])('reports disable_parallel_tool_use as dropped only if there are no tools: %j', (members, dropped) => {
    const changes = createChanges();
    const body = { messages: [hello], tool_choice: { type: 'auto', disable_parallel_tool_use: true }, ...members };
    requestToChat(asLosslessObject(parseLossless(JSON.stringify(body))), { model: 'm', stream: false }, changes);
    expect([...changes.dropped]).toEqual(dropped);
  });

  test.each<[string, object, string]>([
    [
      'a prefilled response',
      { messages: [hello, { role: 'assistant', content: '{' }] },
      'messages: a prefilled response is not supported by vendors that use the chat dialect',
    ],
    [
      'more than four stop sequences',
      { stop_sequences: ['a', 'b', 'c', 'd', 'e'] },
      'stop_sequences: vendors that use the chat dialect support at most four sequences',
    ],
    [
      "a vendor's own tool",
      { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
      'tools: only custom tools are supported by vendors that use the chat dialect',
    ],
    [
      'MCP servers',
      { mcp_servers: [{ type: 'url', url: 'https://a.example', name: 'a' }] },
      'mcp_servers: is not supported by vendors that use the chat dialect',
    ],
    ['a container', { container: 'c-1' }, 'container: is not supported by vendors that use the chat dialect'],
    ['an unknown tool choice', { tool_choice: { type: 'some' } }, 'tool_choice: is not supported by vendors that use the chat dialect'],
    [
      'an unknown response format',
      { output_config: { format: { type: 'grammar' } } },
      'output_config.format: is not supported by vendors that use the chat dialect',
    ],
    [
      'a server tool call',
      { messages: [{ role: 'assistant', content: [{ type: 'server_tool_use' }] }, hello] },
      'messages: an assistant message has a content block whose type is not supported by vendors that use the chat dialect',
    ],
    [
      'a search result',
      { messages: [{ role: 'user', content: [{ type: 'search_result' }] }] },
      'messages: a content block has a type that is not supported by vendors that use the chat dialect',
    ],
    [
      'an image stored at the vendor',
      { messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'file', file_id: 'f' } }] }] },
      'an image must be sent inline or as a web URL',
    ],
    [
      'a document with a URL',
      { messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'url', url: 'https://a' } }] }] },
      'a document must be sent inline; URLs and stored files are not supported',
    ],
    ['an unknown role', { messages: [{ role: 'tool', content: 'x' }] }, 'messages: the role must be user, assistant or system'],
    ["messages that aren't a list", { messages: {} }, 'messages: must be a list'],
    [
      'a result without a call',
      { messages: [{ role: 'user', content: [{ type: 'tool_result' }] }] },
      'a tool result must belong to an earlier tool call',
    ],
    [
      "an input that isn't an object",
      { messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: [1] }] }, hello] },
      'messages: the input of a tool call must be an object',
    ],
    [
      'a stored thread',
      { thread: { type: 'continue', previous_message_id: 'msg_1' } },
      "thread: this model's vendor does not store threads; send the whole conversation",
    ],
    ['a compaction', { compaction: { type: 'summarize' } }, 'compaction: is not supported by vendors that use the chat dialect'],
    ['a place of inference', { inference_geo: 'us' }, 'inference_geo: is not supported by vendors that use the chat dialect'],
    [
      'citations of a document',
      {
        messages: [
          {
            role: 'user',
            content: [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' }, citations: { enabled: true } }],
          },
        ],
      },
      'messages: document citations are not supported by vendors that use the chat dialect',
    ],
  ])('rejects a messages request for a chat vendor: %s', (_name, members, message) => {
    const translate = () => toChat(members);
    expect(translate).toThrow(UntranslatableError);
    expect(translate).toThrow(new Error(message));
  });
});
