/** Tests the translation of responses requests to both dialects. */
import { describe, expect, test } from '@jest/globals';
import { UntranslatableError } from '../../../../src/dialects/contract/untranslatable.ts';
import { asLosslessObject } from '../../../../src/dialects/json/lossless-json.ts';
import { parseLossless } from '../../../../src/dialects/json/parse-lossless.ts';
import { sealReasoning } from '../../../../src/dialects/json/sealed-reasoning.ts';
import { requestToMessages } from '../../../../src/dialects/translate/chat-to-messages.ts';
import { chatToResponse } from '../../../../src/dialects/translate/responses/from-chat.ts';
import { messagesToResponse } from '../../../../src/dialects/translate/responses/from-messages.ts';
import type { ReasoningForm } from '../../../../src/dialects/translate/responses/items.ts';
import { translateResponsesRequest } from '../../../../src/dialects/translate/responses/request.ts';

const identity = { id: '0193-ab', model: 'm', createdSeconds: 7 };
const parse = (members: object) => asLosslessObject(parseLossless(JSON.stringify({ input: 'Hi', ...members })));
const toChat = (members: object, form: ReasoningForm = 'none') =>
  JSON.parse(JSON.stringify(translateResponsesRequest(parse(members), form).chat));
const toMessages = (members: object) => {
  const { chat } = translateResponsesRequest(parse(members), 'messages');
  return JSON.parse(JSON.stringify(requestToMessages(chat, { model: 'claude', maxTokens: 4096, stream: false })));
};

const png = 'data:image/png;base64,iVBO';
const loop = [
  { role: 'developer', content: [{ type: 'input_text', text: 'Use tools.' }] },
  { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Weather?' }] },
  { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAA-of-openai' },
  {
    type: 'message',
    role: 'assistant',
    id: 'msg_1',
    status: 'completed',
    content: [{ type: 'output_text', text: 'Wait.', annotations: [] }],
  },
  { type: 'function_call', id: 'fc_1', call_id: 'c1', name: 'weather', arguments: '{"city":"Oslo"}' },
  { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c2', name: 'patch', input: 'a\n"b"' },
  {
    type: 'function_call_output',
    call_id: 'c1',
    output: [
      { type: 'input_text', text: 'Rain' },
      { type: 'input_image', image_url: png },
    ],
  },
  { type: 'custom_tool_call_output', call_id: 'c2', output: 'ok' },
  { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'q' } },
  { role: 'user', content: 'And?' },
];

describe('a responses request for a chat vendor', () => {
  test('merges the output items of a response into a single chat message', () => {
    expect(toChat({ instructions: 'Be brief.', input: loop }).messages).toEqual([
      { role: 'system', content: 'Be brief.\n\nUse tools.' },
      { role: 'user', content: 'Weather?' },
      {
        role: 'assistant',
        content: 'Wait.',
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } },
          { id: 'c2', type: 'function', function: { name: 'patch', arguments: '{"input":"a\\n\\"b\\""}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'Rain' },
      { role: 'tool', tool_call_id: 'c2', content: 'ok' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Attached to the result of tool call c1:' },
          { type: 'image_url', image_url: { url: png } },
        ],
      },
      { role: 'user', content: 'And?' },
    ]);
  });

  test('translates settings, tools and formats of a responses request to chat', () => {
    const schema = { type: 'object', properties: {} };
    const translated = toChat({
      max_output_tokens: 9,
      temperature: 1.5,
      top_p: 0.5,
      reasoning: { effort: 'high', summary: 'auto' },
      text: { verbosity: 'low', format: { type: 'json_schema', name: 'n', schema, strict: true } },
      tools: [
        { type: 'function', name: 'f', description: 'F.', parameters: schema, strict: true },
        { type: 'custom', name: 'patch', description: 'Edits.', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } },
        { type: 'namespace', name: 'mcp__a', tools: [{ type: 'function', name: 'g', parameters: schema, defer_loading: true }] },
        { type: 'web_search', external_web_access: false },
      ],
      tool_choice: { type: 'custom', name: 'patch' },
      parallel_tool_calls: false,
      store: true,
      include: ['reasoning.encrypted_content'],
      metadata: { a: 'b' },
      user: 'u',
    });
    expect(translated).toEqual({
      messages: [{ role: 'user', content: 'Hi' }],
      max_completion_tokens: 9,
      temperature: 1.5,
      top_p: 0.5,
      tools: [
        { type: 'function', function: { name: 'f', description: 'F.', parameters: schema, strict: true } },
        {
          type: 'function',
          function: {
            name: 'patch',
            description: expect.stringMatching(/^Edits\.[\s\S]*`input`[\s\S]*lark grammar:\nstart: "x"$/),
            parameters: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] },
          },
        },
        { type: 'function', function: { name: 'mcp__a__g', parameters: schema } },
      ],
      tool_choice: { type: 'function', function: { name: 'patch' } },
      parallel_tool_calls: false,
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } },
      reasoning_effort: 'high',
      user: 'u',
    });
  });

  test('accepts tools that are declared in the input items', () => {
    const named = (name: string) => ({ type: 'function', name, parameters: {} });
    const namespace = (name: string, ...tools: object[]) => ({ type: 'namespace', name, description: '', tools });
    const input = [
      { type: 'additional_tools', role: 'developer', tools: [namespace('functions', named('wait')), namespace('clock', named('sleep'))] },
      { role: 'user', content: 'Hi' },
      { type: 'tool_search_call', call_id: 's', execution: 'client', arguments: {} },
      { type: 'tool_search_output', call_id: 's', execution: 'client', tools: [named('found')] },
      { type: 'function_call', call_id: 'c', namespace: 'functions', name: 'wait', arguments: '{}' },
    ];
    const translated = toChat({ input, tools: [{ type: 'tool_search' }] });
    expect(translated.tools.map((tool: { function: { name: string } }) => tool.function.name)).toEqual(['wait', 'clock__sleep', 'found']);
    expect(translated.messages).toMatchObject([{ content: 'Hi' }, { tool_calls: [{ function: { name: 'wait' } }] }]);
  });

  test('sends only the tools that allowed_tools lists', () => {
    const tools = ['f', 'g'].map((name) => ({ type: 'function', name }));
    const choice = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'g' }] };
    expect(toChat({ tools, tool_choice: choice })).toMatchObject({ tools: [{ function: { name: 'g' } }], tool_choice: 'required' });
  });

  test("echoes the request's parameters in the response", () => {
    const offered = { type: 'function', name: 'f', parameters: null, strict: false };
    const { echo } = translateResponsesRequest(parse({ tools: [offered, { type: 'web_search' }], store: true, temperature: 0.2 }), 'none');
    expect(echo.members).toMatchObject({ tools: [offered], store: false, temperature: 0.2, tool_choice: 'auto', truncation: 'disabled' });
  });
});

describe('a responses request for a messages vendor', () => {
  test('keeps images in tool results for a messages vendor', () => {
    expect(toMessages({ input: loop.slice(0, -1), instructions: 'Be brief.' })).toMatchObject({
      system: [{ text: 'Be brief.\n\nUse tools.' }],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Weather?' }] },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'Wait.' },
            { type: 'tool_use', id: 'c1', name: 'weather', input: { city: 'Oslo' } },
            { type: 'tool_use', id: 'c2', name: 'patch', input: { input: 'a\n"b"' } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'Rain' }, { type: 'image' }] },
            { type: 'tool_result', tool_use_id: 'c2', content: 'ok' },
          ],
        },
      ],
    });
  });
});

test('translates a tool result with 160,000 images', () => {
  const call = { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' };
  const images = Array.from({ length: 160_000 }, () => ({ type: 'input_image', image_url: png }));
  const result = { type: 'function_call_output', call_id: 'c1', output: images };
  const details = Array.from({ length: 160_000 }, () => ({ type: 'of a vendor' }));
  const reasoning = { type: 'reasoning', summary: [], encrypted_content: sealReasoning({ reasoning_details: details }) };
  const [said, , shown] = toChat({ input: [reasoning, call, result] }, 'details').messages;
  expect([said.reasoning_details.length, shown.content.length]).toEqual([160_000, 160_001]);
});

describe('items of an earlier response', () => {
  const request = { input: [{ role: 'user', content: 'Hi' }] };
  const continued = (output: unknown) => ({
    input: [...request.input, ...(output as object[]), { type: 'function_call_output', call_id: 't1', output: 'done' }],
  });

  test.each([
    ['text', { reasoning_content: 'Hm.' }],
    [
      'details',
      { reasoning_content: 'Hm.', reasoning_details: [{ type: 'reasoning.encrypted', data: 'eA==', format: 'google-gemini-v1' }] },
    ],
    ['none', {}],
  ] as const)('returns reasoning to a chat vendor in its own format: %s', (form, kept) => {
    const message = {
      role: 'assistant',
      content: 'Wait.',
      tool_calls: [{ id: 't1', type: 'function', function: { name: 'f', arguments: '{"a":1.0}' } }],
    };
    const details = [{ type: 'reasoning.encrypted', data: 'eA==', format: 'google-gemini-v1' }];
    const said = { ...message, reasoning_content: 'Hm.', reasoning_details: details };
    const answer = asLosslessObject(parseLossless(JSON.stringify({ choices: [{ message: said, finish_reason: 'tool_calls' }] })));
    const response = chatToResponse(answer, identity, translateResponsesRequest(parse(request), 'none').echo);
    expect(toChat(continued(response?.output), form).messages[1]).toEqual({ ...message, ...kept });
  });

  test("sends a messages vendor's own content blocks back unchanged", () => {
    const content = [
      { type: 'thinking', thinking: 'Hm.', signature: 's' },
      { type: 'redacted_thinking', data: 'eA==' },
      { type: 'text', text: 'Wait.' },
      { type: 'tool_use', id: 't1', name: 'f', input: { a: 12345678901234567890n } },
    ];
    const text = JSON.stringify({ content, stop_reason: 'tool_use' }, (_, value) => (typeof value === 'bigint' ? 7 : value));
    const response = messagesToResponse(
      asLosslessObject(parseLossless(text)),
      identity,
      translateResponsesRequest(parse(request), 'messages').echo,
    );
    expect(toMessages(continued(response?.output)).messages[1]).toEqual({ role: 'assistant', content: JSON.parse(text).content });
  });
});

describe('parameters that only a responses vendor supports', () => {
  const call = { type: 'function', name: 'f' };
  test.each([
    [{ previous_response_id: 'resp_1' }, /^previous_response_id: .*send the whole conversation as input$/],
    [{ conversation: 'conv_1' }, /^conversation: /],
    [{ background: true }, /^background: /],
    [{ prompt: { id: 'p' } }, /^prompt: /],
    [{ input: [{ type: 'item_reference', id: 'msg_1' }] }, /^input\[0\]: this model's vendor does not store responses/],
    [{ input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] }, /^input\[0\]: file_id is not supported/],
    [
      { input: [{ role: 'user', content: 'a' }, { type: 'computer_call' }] },
      /^input\[1\]: this model's vendor does not support items of this type/,
    ],
    [{ input: 7 }, /^input: must be text or a list$/],
    [{ tools: [{ type: 'web_search' }] }, /^tools: this model's vendor does not support web search/],
    [{ tools: [call, { type: 'mcp', server_url: 'x' }] }, /^tools: this model's vendor only supports functions and custom tools/],
    [{ tools: [call, { type: 'web_search' }], tool_choice: { type: 'web_search' } }, /^tool_choice: /],
    [{ text: { format: { type: 'grammar' } } }, /^text\.format: /],
  ])('names the unsupported parameter: %j', (members, message) => {
    for (const target of ['none', 'messages'] as const) {
      const translate = () => translateResponsesRequest(parse(members), target);
      expect(translate).toThrow(UntranslatableError);
      expect(translate).toThrow(message);
    }
  });
});
