/** Tests that any external input is either translated or rejected, and never breaks the call. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { JsonObject } from '../../../src/core/json/narrow.ts';
import { parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import { UntranslatableError } from '../../../src/dialects/contract/untranslatable.ts';
import { asLosslessObject } from '../../../src/dialects/json/lossless-json.ts';
import { parseLossless } from '../../../src/dialects/json/parse-lossless.ts';
import { sealReasoning } from '../../../src/dialects/json/sealed-reasoning.ts';
import { requestToMessages, responseToMessages } from '../../../src/dialects/translate/chat-to-messages.ts';
import { createStreamToMessages } from '../../../src/dialects/translate/chat-to-messages-stream.ts';
import { requestToChat, responseToChat } from '../../../src/dialects/translate/messages-to-chat.ts';
import { createStreamToChat } from '../../../src/dialects/translate/messages-to-chat-stream.ts';
import { chatToResponse, createChatToResponses } from '../../../src/dialects/translate/responses/from-chat.ts';
import { createMessagesToResponses, messagesToResponse } from '../../../src/dialects/translate/responses/from-messages.ts';
import { translateResponsesRequest } from '../../../src/dialects/translate/responses/request.ts';
import { valueText } from '../../core/json/json-texts.ts';
import { isExhaustive } from '../../support/exhaustive.ts';
import { chatAnswer, chatStream, messagesAnswer, messagesStream, said } from './vendors.ts';

const names = { id: 'call-1', model: 'm', createdSeconds: 1 };
const echo = { members: {}, tools: new Map([['f', { kind: 'custom' as const, name: 'f', namespace: null }]]) };

const chatRequest = {
  model: 'm',
  messages: [
    { role: 'system', content: [{ type: 'text', text: 'S' }] },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'U', cache_control: { type: 'ephemeral' } },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AA', detail: 'low' } },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,AA', filename: 'a' } },
      ],
    },
    {
      role: 'assistant',
      content: 'A',
      refusal: 'R',
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'c', content: 'T' },
  ],
  max_tokens: 5000,
  temperature: 1,
  top_p: 1,
  stop: ['x'],
  n: 1,
  tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' }, strict: true } }],
  tool_choice: { type: 'function', function: { name: 'f' } },
  parallel_tool_calls: false,
  response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' } } },
  reasoning_effort: 'low',
  user: 'u',
  modalities: ['text'],
};

const source = { type: 'base64', media_type: 'image/png', data: 'AA' };
const messagesRequest = {
  model: 'm',
  max_tokens: 5,
  system: [{ type: 'text', text: 'S' }],
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'U' },
        { type: 'image', source },
        { type: 'document', title: 't', context: 'c', source: { type: 'content', content: [{ type: 'text', text: 'D' }] } },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'H' },
        { type: 'text', text: 'A' },
        { type: 'tool_use', id: 't', name: 'f', input: { a: 1 } },
      ],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', source }], is_error: true }] },
  ],
  stop_sequences: ['x'],
  metadata: { user_id: 'u' },
  tools: [{ name: 'f', description: 'd', input_schema: { type: 'object' } }],
  tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true },
  thinking: { type: 'enabled', budget_tokens: 2000 },
  output_config: { effort: 'low', format: { type: 'json_schema', schema: {} } },
};

const responsesRequest = {
  model: 'm',
  instructions: 'S',
  input: [
    { role: 'developer', content: 'D' },
    {
      type: 'message',
      role: 'user',
      content: [
        { type: 'input_text', text: 'U' },
        { type: 'input_image', image_url: 'data:image/png;base64,AA', detail: 'low' },
        { type: 'input_file', file_data: 'data:application/pdf;base64,AA', filename: 'a' },
      ],
    },
    { type: 'reasoning', id: 'rs', summary: [], encrypted_content: sealReasoning({ type: 'thinking', thinking: 'H', signature: 's' }) },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'A', annotations: [] }] },
    { type: 'function_call', call_id: 'c', name: 'f', namespace: 'n', arguments: '{}' },
    { type: 'custom_tool_call', call_id: 'd', name: 'g', input: 'x' },
    { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', image_url: 'https://a.example/b.png' }] },
    { type: 'custom_tool_call_output', call_id: 'd', output: 'T' },
  ],
  tools: [
    { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'f', parameters: { type: 'object' } }] },
    { type: 'custom', name: 'g', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
    { type: 'web_search' },
  ],
  tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'custom', name: 'g' }] },
  reasoning: { effort: 'low' },
  text: { format: { type: 'json_schema', name: 'n', schema: { type: 'object' } } },
};

/** Generates the value with some of its fields (at any depth) replaced by other JSON or removed. */
function damaged(value: unknown): fc.Arbitrary<string> {
  const places = JSON.stringify(value, (_key, member) => member).length;
  const damage = fc.tuple(
    fc.nat(places),
    fc.option(fc.oneof(valueText, fc.constantFrom('""', '{}', '[]', '[null]', '[{}]', '1.0', 'null'))),
  );
  return fc.array(damage, { minLength: 1, maxLength: 3 }).map((damages) => {
    let text = JSON.stringify(value);
    for (const [place, replacement] of damages) {
      const count = countMembers(parseJsonOrThrow(text));
      text = replaceMember(parseJsonOrThrow(text), place % Math.max(1, count), replacement);
    }
    return text;
  });
}

function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce((count: number, member) => count + 1 + countMembers(member), 0);
}

/**
 * Returns JSON text in which the field with this number (as counted by `countMembers`) is replaced. If it's undefined,
 * the field is removed.
 */
function replaceMember(value: unknown, place: number, replacement: string | null): string {
  let at = -1;
  const mark = '\u0000place\u0000';
  const walk = (node: unknown): unknown => {
    if (typeof node !== 'object' || node === null) return node;
    const entries = Object.entries(node).flatMap(([key, member]) => {
      at += 1;
      if (at !== place) return [[key, walk(member)]];
      at += countMembers(member);
      return replacement === null ? [] : [[key, mark]];
    });
    return Array.isArray(node) ? entries.map(([, member]) => member) : Object.fromEntries(entries);
  };
  return JSON.stringify(walk(value)).replace(JSON.stringify(mark), () => replacement ?? 'null');
}

function translatesOrRefuses(translate: () => JsonObject | null): void {
  let result: JsonObject | null;
  try {
    result = translate();
  } catch (error) {
    expect(error).toBeInstanceOf(UntranslatableError);
    return;
  }
  expect(parseJsonOrThrow(JSON.stringify(result))).toEqual(result === null ? null : expect.any(Object));
}

/** Tries a quarter of the cases, unless all of them are requested. The seed is different in each run. */
const upTo = (numRuns: number) => ({ numRuns: isExhaustive ? numRuns : numRuns / 4 });

describe('the translator with damaged input', () => {
  test('translates or rejects random chat requests', () => {
    const target = fc.record({
      supportsSchema: fc.boolean(),
      thinking: fc.constantFrom('budget' as const, 'adaptive' as const, 'none' as const),
    });
    fc.assert(
      fc.property(damaged(chatRequest), target, (text, options) =>
        translatesOrRefuses(() =>
          requestToMessages(asLosslessObject(parseLossless(text)), { model: 'm', maxTokens: 1, stream: true, ...options }),
        ),
      ),
      upTo(2_000),
    );
  });

  test('translates or rejects random messages requests', () => {
    fc.assert(
      fc.property(damaged(messagesRequest), (text) =>
        translatesOrRefuses(() => requestToChat(asLosslessObject(parseLossless(text)), { model: 'm', stream: true })),
      ),
      upTo(2_000),
    );
  });

  test('translates or rejects random responses requests', () => {
    fc.assert(
      fc.property(damaged(responsesRequest), (text) => {
        const body = asLosslessObject(parseLossless(text));
        translatesOrRefuses(() => translateResponsesRequest(body, 'details').chat);
        const target = { model: 'm', maxTokens: 1, stream: true };
        translatesOrRefuses(() => requestToMessages(translateResponsesRequest(body, 'messages').chat, target));
      }),
      upTo(500),
    );
  });

  test('translates or rejects random vendor responses', () => {
    const answers = said.chain((answer) => fc.tuple(damaged(chatAnswer(answer)), damaged(messagesAnswer(answer))));
    fc.assert(
      fc.property(answers, ([ofChat, ofMessages]) => {
        translatesOrRefuses(() => responseToMessages(asLosslessObject(parseLossless(ofChat)), names));
        translatesOrRefuses(() => responseToChat(asLosslessObject(parseLossless(ofMessages)), names));
        translatesOrRefuses(() => chatToResponse(asLosslessObject(parseLossless(ofChat)), names, echo));
        translatesOrRefuses(() => messagesToResponse(asLosslessObject(parseLossless(ofMessages)), names, echo));
      }),
      upTo(1_000),
    );
  });

  test('translates or rejects random stream events', () => {
    const datasOf = (stream: string): string[] =>
      stream.split('\n\n').flatMap((block) => (block === '' ? [] : [block.slice('data: '.length)]));
    const streams = said.chain((answer) => {
      const damagedDatas = (stream: string): fc.Arbitrary<string[]> =>
        fc.tuple(
          ...datasOf(stream).map((data) =>
            data === '[DONE]' ? fc.constant(data) : fc.oneof(fc.constant(data), damaged(parseJsonOrThrow(data))),
          ),
        );
      return fc.tuple(damagedDatas(chatStream(answer)), damagedDatas(messagesStream(answer)));
    });
    fc.assert(
      fc.property(streams, ([ofChat, ofMessages]) => {
        for (const [translator, datas] of [
          [createStreamToMessages(names), ofChat],
          [createStreamToChat(names), ofMessages],
          [createChatToResponses(names, echo), ofChat],
          [createMessagesToResponses(names, echo), ofMessages],
        ] as const) {
          const out = datas.map((data) => translator.push({ name: '', data, start: 0, end: 0 })).join('') + translator.end();
          expect(translator.state().ended).not.toBeNull();
          if (out !== '') expect(out.endsWith('\n\n')).toBe(true);
        }
      }),
      upTo(300),
    );
  });

  test('translates values that are nested as deeply as the parser allows', () => {
    const deep = `${'{"a":'.repeat(1_500)}1.0${'}'.repeat(1_500)}`;
    const request = `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":${deep}}}]}`;
    translatesOrRefuses(() => requestToMessages(asLosslessObject(parseLossless(request)), { model: 'm', maxTokens: 1, stream: false }));
    const bottomless = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: `{"a":${bottomless}}` } };
    const body = { messages: [{ role: 'assistant', tool_calls: [call] }] };
    expect(() => requestToMessages(body, { model: 'm', maxTokens: 1, stream: false })).toThrow(UntranslatableError);
    const events = [
      `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"f","input":{"a":${bottomless}}}}`,
      '{"type":"message_stop"}',
    ];
    const toChat = createStreamToChat(names);
    expect(events.map((data) => toChat.push({ name: '', data, start: 0, end: 0 })).join('')).toContain('[DONE]');
    const toMessages = createStreamToMessages(names);
    const data = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":{"a":${bottomless}}}}]}}]}`;
    expect(toMessages.push({ name: '', data, start: 0, end: 0 })).toContain('message_start');
  });
});
