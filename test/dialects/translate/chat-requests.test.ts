/** Tests the translation of chat requests for messages vendors, field by field. */
import { describe, expect, test } from '@jest/globals';
import { UntranslatableError } from '../../../src/dialects/contract/untranslatable.ts';
import { jsonAnswerToolName } from '../../../src/dialects/translate/json-answer-tool.ts';
import { format, nativeTool, png, schema, text, toMessages, tool } from './examples.ts';

describe('a chat request for a messages vendor', () => {
  test('a minimal chat request becomes a model, a token limit and messages', () => {
    expect(toMessages({})).toEqual({ model: 'claude', max_tokens: 4096, messages: [{ role: 'user', content: [text('Hi')] }] });
  });

  test.each<[string, object, object]>([
    ['max_tokens', { max_tokens: 7 }, { max_tokens: 7 }],
    ['max_completion_tokens rather than max_tokens', { max_tokens: 7, max_completion_tokens: 9 }, { max_tokens: 9 }],
    ['null token limits', { max_tokens: null, max_completion_tokens: null }, { max_tokens: 4096 }],
    ['temperature', { temperature: 0.5 }, { temperature: 0.5 }],
    ['temperature above 1', { temperature: 1.7 }, { temperature: 1 }],
    ['temperature of zero', { temperature: 0 }, { temperature: 0 }],
    ['top_p', { top_p: 0.9 }, { top_p: 0.9 }],
    ['top_p of 1 with a temperature', { top_p: 1, temperature: 0.5 }, { temperature: 0.5, top_p: undefined }],
    ['a stop sequence', { stop: 'END' }, { stop_sequences: ['END'] }],
    ['several stop sequences', { stop: ['A', 'B'] }, { stop_sequences: ['A', 'B'] }],
    ['empty stop sequences', { stop: [''] }, { stop_sequences: undefined }],
    ['top_k', { top_k: 5 }, { top_k: 5 }],
    ['the highest effort', { reasoning_effort: 'max', max_tokens: 40000 }, { thinking: { type: 'enabled', budget_tokens: 16384 } }],
    ["OpenRouter's effort", { reasoning: { effort: 'low' }, max_tokens: 9000 }, { thinking: { type: 'enabled', budget_tokens: 1024 } }],
    ["OpenRouter's budget", { reasoning: { max_tokens: 2000 }, max_tokens: 9000 }, { thinking: { type: 'enabled', budget_tokens: 2000 } }],
    ["OpenRouter's reasoning", { reasoning: { enabled: true }, max_tokens: 9000 }, { thinking: { type: 'enabled', budget_tokens: 4096 } }],
    [
      'thinking in the messages format',
      { thinking: { type: 'enabled', budget_tokens: 6000 }, max_tokens: 9000 },
      { thinking: { type: 'enabled', budget_tokens: 6000 } },
    ],
    [
      'thinking beyond the token limit',
      { thinking: { type: 'enabled', budget_tokens: 9000 }, max_tokens: 9000 },
      { thinking: { type: 'enabled', budget_tokens: 4096 } },
    ],
    ['disabled thinking', { thinking: { type: 'disabled' }, reasoning_effort: 'high', max_tokens: 9000 }, { thinking: undefined }],
    ['a null stop sequence', { stop: null }, { stop_sequences: undefined }],
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
      'a schema without a type',
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
      'disabled parallel calls',
      { tools: [tool], parallel_tool_calls: false },
      { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
    ],
    [
      'disabled parallel calls with a required call',
      { tools: [tool], tool_choice: 'required', parallel_tool_calls: false },
      { tool_choice: { type: 'any', disable_parallel_tool_use: true } },
    ],
    [
      'disabled parallel calls if no call is allowed',
      { tools: [tool], tool_choice: 'none', parallel_tool_calls: false },
      { tool_choice: { type: 'none' } },
    ],
    ['disabled parallel calls without tools', { parallel_tool_calls: false }, { tool_choice: undefined }],
    ['enabled parallel calls', { tools: [tool], parallel_tool_calls: true }, { tool_choice: undefined }],
    ['response_format text', { response_format: { type: 'text' } }, { tools: undefined, output_config: undefined }],
    ['low effort', { reasoning_effort: 'low', max_tokens: 9000 }, { thinking: { type: 'enabled', budget_tokens: 1024 } }],
    ['medium effort', { reasoning_effort: 'medium', max_tokens: 9000 }, { thinking: { type: 'enabled', budget_tokens: 4096 } }],
    ['high effort', { reasoning_effort: 'high', max_tokens: 40000 }, { thinking: { type: 'enabled', budget_tokens: 16384 } }],
    ['high effort with few tokens', { reasoning_effort: 'high', max_tokens: 9000 }, { thinking: { type: 'enabled', budget_tokens: 4096 } }],
    ['effort with too few tokens', { reasoning_effort: 'low', max_tokens: 1500 }, { thinking: undefined }],
    ['no effort', { reasoning_effort: 'none', max_tokens: 9000 }, { thinking: undefined }],
    ['the default effort', { reasoning_effort: 'default', max_tokens: 9000 }, { thinking: undefined }],
    [
      'thinking without a temperature',
      { reasoning_effort: 'low', max_tokens: 9000, temperature: 0.5, top_p: 0.5 },
      { thinking: { type: 'enabled', budget_tokens: 1024 } },
    ],
    [
      'an effort with a forced call',
      { reasoning_effort: 'low', max_tokens: 9000, tools: [tool], tool_choice: 'required' },
      { tool_choice: { type: 'any' } },
    ],
    [
      'a request without unsupported parameters',
      {
        seed: 1,
        logprobs: false,
        top_logprobs: 0,
        logit_bias: {},
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
  ])('translates a chat request for a messages vendor: %s', (_name, members, expected) => {
    // Expected in every row that doesn't override it. There can't be any other fields in the request.
    const max_tokens = 'max_tokens' in members ? (members.max_tokens ?? 4096) : 4096;
    const tools = 'tools' in members ? [nativeTool] : undefined;
    const messages = [{ role: 'user', content: [text('Hi')] }];
    expect(toMessages(members)).toEqual({ model: 'claude', messages, max_tokens, tools, ...expected });
  });

  test('sets `stream` only for streamed calls', () => {
    expect(toMessages({}, { stream: true }).stream).toBe(true);
    expect(toMessages({ stream: true })).not.toHaveProperty('stream');
  });

  test('sets a thinking effort only if the model supports it', () => {
    const members = { reasoning_effort: 'high', response_format: format };
    expect(toMessages(members, { thinking: 'adaptive', supportsSchema: true })).toMatchObject({
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high', format: { type: 'json_schema', schema } },
    });
    expect(toMessages({ reasoning_effort: 'high', max_tokens: 90000 }, { thinking: 'none' })).not.toHaveProperty('thinking');
  });

  test('marks tools as strict only for models that support it', () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: schema, strict: true } }];
    expect(toMessages({ tools }, { supportsSchema: true }).tools).toEqual([{ name: 'f', input_schema: schema, strict: true }]);
    expect(toMessages({ tools }).tools).toEqual([{ name: 'f', input_schema: schema }]);
  });

  describe('response_format', () => {
    const answerTool = { name: jsonAnswerToolName, description: expect.stringContaining('An a.'), input_schema: schema };
    const onlyAnswer = { type: 'tool', name: jsonAnswerToolName, disable_parallel_tool_use: true };

    test('turns response_format into output_config.format if the model supports it', () => {
      expect(toMessages({ response_format: format }, { supportsSchema: true })).toMatchObject({
        output_config: { format: { type: 'json_schema', schema } },
      });
    });

    test("turns response_format into a forced tool call if the model doesn't support it natively", () => {
      expect(toMessages({ response_format: format })).toMatchObject({ tools: [answerTool], tool_choice: onlyAnswer });
    });

    test("the model can choose between the JSON answer tool and the caller's tools", () => {
      expect(toMessages({ response_format: format, tools: [tool] })).toMatchObject({
        tools: [nativeTool, answerTool],
        tool_choice: { type: 'any', disable_parallel_tool_use: true },
      });
      expect(toMessages({ response_format: format, tools: [tool], tool_choice: 'none' }).tool_choice).toEqual(onlyAnswer);
    });

    test('ignores response_format if the caller requires a tool call', () => {
      const request = toMessages({ response_format: format, tools: [tool], tool_choice: 'required' });
      expect(request).toMatchObject({ tools: [nativeTool], tool_choice: { type: 'any' } });
    });

    test('response_format json_object allows any JSON object', () => {
      const expected = {
        tools: [{ name: jsonAnswerToolName, input_schema: { type: 'object', additionalProperties: true } }],
        tool_choice: onlyAnswer,
      };
      expect(toMessages({ response_format: { type: 'json_object' } })).toMatchObject(expected);
      expect(toMessages({ response_format: { type: 'json_object' } }, { supportsSchema: true })).toMatchObject(expected);
    });
  });

  test.each<[string, object, string]>([
    ['several choices', { n: 2 }, 'n: must be 1 for vendors that use the messages dialect'],
    [
      'a blank stop sequence',
      { stop: '\n\n' },
      'stop: vendors that use the messages dialect reject sequences that consist only of whitespace',
    ],
    [
      'an unknown effort',
      { reasoning_effort: 'toString' },
      'reasoning_effort: this value is not supported by vendors that use the messages dialect',
    ],
    ['audio output', { modalities: ['text', 'audio'] }, 'modalities: vendors that use the messages dialect only support text output'],
    ['a web search', { web_search_options: {} }, 'web_search_options: is not supported by vendors that use the messages dialect'],
    ['legacy functions', { functions: [{ name: 'f' }] }, 'functions: is not supported by vendors that use the messages dialect; use tools'],
    [
      "a vendor's own tool",
      { tools: [{ type: 'web_search' }] },
      'tools: only function tools are supported by vendors that use the messages dialect',
    ],
    [
      'a custom tool',
      { tools: [{ type: 'custom', custom: { name: 'f' } }] },
      'tools: only function tools are supported by vendors that use the messages dialect',
    ],
    [
      "a tool with the gateway's own name",
      { tools: [{ type: 'function', function: { name: jsonAnswerToolName } }] },
      'tools: a tool has a name that is reserved for the gateway',
    ],
    [
      'allowed_tools as the tool choice',
      { tools: [tool], tool_choice: { type: 'allowed_tools' } },
      'tool_choice: is not supported by vendors that use the messages dialect',
    ],
    [
      'an unknown response format',
      { response_format: { type: 'grammar' } },
      'response_format: is not supported by vendors that use the messages dialect',
    ],
    [
      'an unknown role',
      { messages: [{ role: 'function', name: 'f', content: '1' }] },
      'the role of a message must be system, developer, user, assistant or tool',
    ],
    ["messages that aren't a list", { messages: 'Hi' }, 'messages: must be a list'],
    [
      'a legacy function_call',
      { messages: [{ role: 'assistant', function_call: { name: 'f', arguments: '' } }] },
      'function_call is not supported by vendors that use the messages dialect; use tool_calls',
    ],
    [
      'assistant audio',
      { messages: [{ role: 'assistant', audio: { id: 'a' } }] },
      'audio in assistant messages is not supported by vendors that use the messages dialect',
    ],
    [
      'a custom tool call',
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'c', type: 'custom', custom: {} }] }] },
      'a tool call must be a function call',
    ],
    [
      "arguments that aren't JSON",
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'c', function: { name: 'f', arguments: '{"a' } }] }] },
      'the arguments of a tool call must be a JSON object',
    ],
    [
      "arguments that aren't an object",
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'c', function: { name: 'f', arguments: '[1]' } }] }] },
      'the arguments of a tool call must be a JSON object',
    ],
    ['a result without a call', { messages: [{ role: 'tool', content: 'R' }] }, 'a tool result must belong to an earlier tool call'],
    [
      'an image in the instructions',
      { messages: [{ role: 'system', content: [png] }] },
      'vendors that use the messages dialect only accept text in this message',
    ],
    ['log probabilities', { logprobs: true, top_logprobs: 2 }, 'logprobs: is not supported by vendors that use the messages dialect'],
    ['a token bias', { logit_bias: { 5: -100 } }, 'logit_bias: is not supported by vendors that use the messages dialect'],
    ['moderation', { moderation: { model: 'm' } }, 'moderation: is not supported by vendors that use the messages dialect'],
  ])('rejects a chat request for a messages vendor: %s', (_name, members, message) => {
    const translate = () => toMessages(members);
    expect(translate).toThrow(UntranslatableError);
    expect(translate).toThrow(new Error(message));
  });
});
