/**
 * Tests the translation of responses and streams from both dialects for callers of the responses route. We use OpenAI's
 * own SDK, and also check individual events.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import OpenAI from 'openai';
import { asArray, asObject, asString, type JsonObject } from '../../../../src/core/json/narrow.ts';
import { parseJsonOrThrow } from '../../../../src/core/json/parse.ts';
import { createSseParser } from '../../../../src/core/sse.ts';
import { parseResponsesUsage } from '../../../../src/dialects/contract/token-usage.ts';
import { asLosslessObject } from '../../../../src/dialects/json/lossless-json.ts';
import { parseLossless } from '../../../../src/dialects/json/parse-lossless.ts';
import { sealReasoning } from '../../../../src/dialects/json/sealed-reasoning.ts';
import { readAssistantTurn } from '../../../../src/dialects/passthrough/responses.ts';
import { normalizeMessage, parsePrompt } from '../../../../src/dialects/prompt/prompt.ts';
import { chatToResponse, createChatToResponses } from '../../../../src/dialects/translate/responses/from-chat.ts';
import { createMessagesToResponses, messagesToResponse } from '../../../../src/dialects/translate/responses/from-messages.ts';
import { translateResponsesRequest } from '../../../../src/dialects/translate/responses/request.ts';
import { isExhaustive } from '../../../support/exhaustive.ts';
import { streamOf } from '../../events.ts';
import { translateStream } from '../callers.ts';
import { chatAnswer, chatStream, messagesAnswer, messagesStream, said } from '../vendors.ts';

const identity = { id: '0193-ab', model: 'asked', createdSeconds: 7 };
const echoFor = (body: object = { input: 'Hi' }) => translateResponsesRequest(asLosslessObject(body), 'messages').echo;
const lossless = (value: object): JsonObject => asLosslessObject(parseLossless(JSON.stringify(value)));

/** Each run has hundreds of assertions. */
const sample = { numRuns: isExhaustive ? 1_000 : 30 };

const vendors = {
  chat: {
    answer: chatAnswer,
    stream: chatStream,
    toResponse: (answer: object, body?: object) => chatToResponse(lossless(answer), identity, echoFor(body)),
    create: (body?: object) => createChatToResponses(identity, echoFor(body)),
  },
  messages: {
    answer: messagesAnswer,
    stream: messagesStream,
    toResponse: (answer: object, body?: object) => messagesToResponse(lossless(answer), identity, echoFor(body)),
    create: (body?: object) => createMessagesToResponses(identity, echoFor(body)),
  },
} as const;

describe.each(['chat', 'messages'] as const)('a responses stream from a %s vendor', (dialect) => {
  const { answer, stream, toResponse, create } = vendors[dialect];

  test('the SDK assembles a responses stream into the JSON response', async () => {
    await fc.assert(
      fc.asyncProperty(said, async (content) => {
        const streamed = await readStream(translateStream(create(), stream(content)));
        expect(streamed).toEqual(parseJsonOrThrow(JSON.stringify(toResponse(answer(content)))));
      }),
    );
  });

  test("produces the same responses events wherever the vendor's bytes are split", () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(said, sizes, fc.constantFrom('\n', '\r\n', '\r'), (content, split, lineEnd) => {
        const text = stream(content);
        expect(translateStream(create(), text.replaceAll('\n', lineEnd), split)).toBe(translateStream(create(), text));
      }),
    );
  });

  test('produces valid responses events in the documented order', () => {
    fc.assert(
      fc.property(said, (content) => {
        expectValidEvents(eventsOf(translateStream(create(), stream(content))));
      }),
      sample,
    );
  });

  test("keeps the vendor's text, tool calls and reasoning in a responses stream", () => {
    fc.assert(
      fc.property(said, (content) => {
        const response = asObject(toResponse(answer({ ...content, hasToolIds: true, hasUsage: true })));
        const items = asArray(response.output).map(asObject);
        const texts = items.filter(({ type }) => type === 'message').flatMap(({ content: parts }) => asArray(parts).map(asObject));
        expect(texts.map(({ text }) => text).join('')).toBe(content.text);
        const calls = items.filter(({ type }) => type === 'function_call');
        expect(
          calls.map((call) => ({ id: call.call_id, name: call.name, arguments: parseJsonOrThrow(asString(call.arguments) ?? '') })),
        ).toEqual(content.tools);
        const thoughts = items.filter(({ type }) => type === 'reasoning').flatMap(({ summary }) => asArray(summary).map(asObject));
        expect(thoughts.map(({ text }) => text).join('')).toBe(content.thinking);
        expect(response).toMatchObject({
          model: content.model,
          status: content.end === 'stop' ? 'completed' : 'incomplete',
          incomplete_details: { stop: null, length: { reason: 'max_output_tokens' }, filtered: { reason: 'content_filter' } }[content.end],
        });
        const { input, cachedInput, cacheWrite, cacheWrite1h, output } = content.tokens;
        const written = dialect === 'chat' ? 0 : cacheWrite + cacheWrite1h;
        expect(parseResponsesUsage(response.usage)).toMatchObject({ input, cachedInput, cacheWrite: written, output });
        expect(asObject(response.usage).total_tokens).toBe(input + cachedInput + written + output);
      }),
    );
  });

  test('records the same turn that the client repeats in its next request', () => {
    fc.assert(
      fc.property(said, (content) => {
        const response = asObject(toResponse(answer(content)));
        const repeated = parsePrompt('responses', { input: [{ role: 'user', content: 'Hi' }, ...asArray(response.output)] });
        const turn = normalizeMessage('assistant', readAssistantTurn(response));
        expect(repeated.messages.slice(1)).toEqual(turn === null ? [] : [turn]);
      }),
    );
  });

  test("sends response.failed if the vendor's stream breaks", () => {
    fc.assert(
      fc.property(said, fc.nat(), (content, place) => {
        const events = stream(content).split('\n\n').slice(0, -1);
        const kept = events.slice(0, place % events.length);
        const translator = create();
        let sent = translateStream(translator, kept.map((event) => `${event}\n\n`).join(''));
        const { begun, ended, problem } = translator.state();
        if (!begun || ended !== 'broken') return;
        sent += translator.fail(problem ?? '');
        const last = eventsOf(sent).at(-1);
        expect(last).toMatchObject({
          type: 'response.failed',
          response: { status: 'failed', error: { code: 'server_error', message: 'the vendor ended the stream early' } },
        });
        const deltas = eventsOf(sent).map((event) => (event.type === 'response.output_text.delta' ? event.delta : ''));
        expect(readAssistantTurn(asObject(last?.response)).text).toBe(deltas.join(''));
      }),
      sample,
    );
  });
});

test('encodes signed thinking as encrypted_content and keeps the order of blocks', () => {
  const content = [
    { type: 'thinking', thinking: 'One.', signature: 's1' },
    { type: 'text', text: 'First.' },
    { type: 'redacted_thinking', data: 'ZGF0YQ==' },
    { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 1 } },
  ];
  const response = vendors.messages.toResponse({ id: 'm', model: 'claude', content, stop_reason: 'tool_use' });
  expect(response?.output).toMatchObject([
    { type: 'reasoning', summary: [{ type: 'summary_text', text: 'One.' }], encrypted_content: sealReasoning(content[0] ?? {}) },
    { type: 'message', status: 'completed', content: [{ type: 'output_text', text: 'First.' }] },
    { type: 'reasoning', summary: [], encrypted_content: sealReasoning(content[2] ?? {}) },
    { type: 'function_call', call_id: 'toolu_1', name: 'f', arguments: '{"a":1}' },
  ]);
});

test("encodes a chat vendor's reasoning_details as encrypted_content", () => {
  const chunk = (delta: object, finish: string | null = null) => ({ choices: [{ index: 0, delta, finish_reason: finish }] });
  const signed = { type: 'reasoning.text', text: 'Hm, ok.', signature: 's', index: 0 };
  const encrypted = { type: 'reasoning.encrypted', data: 'ZGF0YQ==', index: 1 };
  const text = streamOf(
    chunk({ reasoning_content: 'Hm, ' }),
    chunk({ reasoning_content: 'ok.' }),
    chunk({ reasoning_details: [signed] }),
    chunk({ reasoning_details: [encrypted] }),
    chunk({ content: 'A' }),
    chunk({}, 'stop'),
    '[DONE]',
  );
  const events = eventsOf(translateStream(vendors.chat.create(), text));
  expectValidEvents(events);
  expect(asArray(asObject(asObject(events.at(-1)).response).output)[0]).toMatchObject({
    summary: [{ text: 'Hm, ok.' }],
    encrypted_content: sealReasoning({ reasoning_content: 'Hm, ok.', reasoning_details: [signed, encrypted] }),
  });
});

test("encodes reasoning as encrypted_content even if the chat vendor wouldn't accept it back", () => {
  const message = { content: 'A', reasoning: 'Hm.' };
  const streamed = streamOf({ choices: [{ index: 0, delta: message, finish_reason: 'stop' }] }, '[DONE]');
  const plain = vendors.chat.toResponse({ choices: [{ message, finish_reason: 'stop' }] });
  for (const response of [plain, asObject(eventsOf(translateStream(vendors.chat.create(), streamed)).at(-1)).response])
    expect(asArray(asObject(response).output)[0]).toMatchObject({
      summary: [{ text: 'Hm.' }],
      encrypted_content: sealReasoning({}),
    });
});

test('separates complete tool calls of a chat vendor that have the same index', () => {
  const call = (id: string, name: string) => ({ tool_calls: [{ index: 0, id, function: { name, arguments: '{"a":1}' } }] });
  const chunks = [call('c1', 'f'), call('c2', 'g')].map((delta) => ({ choices: [{ index: 0, delta }] }));
  const text = streamOf(...chunks, { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }, '[DONE]');
  const events = eventsOf(translateStream(vendors.chat.create(), text));
  expectValidEvents(events);
  expect(asArray(asObject(asObject(events.at(-1)).response).output)).toMatchObject([
    { call_id: 'c1', name: 'f', arguments: '{"a":1}', status: 'completed' },
    { call_id: 'c2', name: 'g', arguments: '{"a":1}', status: 'completed' },
  ]);
});

test("converts a chat vendor's refusal to a refusal content part", async () => {
  const refused = { id: 'c', model: 'gpt', choices: [{ index: 0, message: { content: null, refusal: 'No.' }, finish_reason: 'stop' }] };
  const chunk = (delta: object, finish: string | null = null) => ({ choices: [{ index: 0, delta, finish_reason: finish }] });
  const text = streamOf(
    chunk({ role: 'assistant', content: '' }),
    chunk({ refusal: 'N' }),
    chunk({ refusal: 'o.' }),
    chunk({}, 'stop'),
    '[DONE]',
  );
  const streamed = eventsOf(translateStream(vendors.chat.create(), text));
  expectValidEvents(streamed);
  for (const response of [vendors.chat.toResponse(refused), asObject(streamed.at(-1)).response])
    expect(response).toMatchObject({ output: [{ type: 'message', content: [{ type: 'refusal', refusal: 'No.' }] }] });
});

test('returns custom and namespaced tool calls as the caller declared them', () => {
  const body = {
    input: 'Hi',
    tools: [
      { type: 'custom', name: 'apply_patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } },
      { type: 'namespace', name: 'mcp__files', description: 'Files.', tools: [{ type: 'function', name: 'read', parameters: {} }] },
    ],
  };
  const content = [
    { type: 'tool_use', id: 't1', name: 'apply_patch', input: { input: '*** Begin Patch\n' } },
    { type: 'tool_use', id: 't2', name: 'mcp__files__read', input: { path: 'a' } },
  ];
  const text = streamOf(
    { type: 'message_start', message: { id: 'm', model: 'claude' } },
    ...content.flatMap(({ input, ...start }, index) => [
      { type: 'content_block_start', index, content_block: { ...start, input: {} } },
      { type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json: JSON.stringify(input) } },
      { type: 'content_block_stop', index },
    ]),
    { type: 'message_delta', delta: { stop_reason: 'tool_use' } },
    { type: 'message_stop' },
  );
  const streamed = eventsOf(translateStream(vendors.messages.create(body), text));
  expectValidEvents(streamed);
  const plain = vendors.messages.toResponse({ model: 'claude', content, stop_reason: 'tool_use' }, body);
  for (const response of [plain, asObject(streamed.at(-1)).response]) {
    expect(response).toMatchObject({
      output: [
        { type: 'custom_tool_call', call_id: 't1', name: 'apply_patch', input: '*** Begin Patch\n' },
        { type: 'function_call', call_id: 't2', name: 'read', namespace: 'mcp__files', arguments: '{"path":"a"}' },
      ],
    });
  }
});

async function readStream(text: string): Promise<unknown> {
  const fetch = async () => new Response(text, { headers: { 'content-type': 'text/event-stream' } });
  const client = new OpenAI({ apiKey: 'k', baseURL: 'http://vendor.example/v1', fetch, maxRetries: 0 });
  const {
    output_text: _text,
    output_parsed: _parsed,
    ...response
  } = await client.responses.stream({ model: 'm', input: 'Hi' }).finalResponse();
  const withoutParsed = (key: string, value: unknown): unknown => (key === 'parsed' || key === 'parsed_arguments' ? undefined : value);
  return parseJsonOrThrow(JSON.stringify(response, withoutParsed));
}

function eventsOf(text: string): JsonObject[] {
  return createSseParser()
    .push(Buffer.from(text))
    .events.filter(({ data }) => data !== '')
    .map(({ name, data }) => {
      const event = asObject(parseJsonOrThrow(data));
      expect(event.type).toBe(name);
      return event;
    });
}

/** Replays the events of a complete stream, and compares what they add up to with the final response. */
function expectValidEvents(events: readonly JsonObject[]): void {
  expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
  expect(events.slice(0, 2).map(({ type }) => type)).toEqual(['response.created', 'response.in_progress']);
  const last = events.at(-1);
  expect(['response.completed', 'response.incomplete']).toContain(last?.type);
  const done: unknown[] = [];
  const open = new Map<unknown, { id: unknown; text: string }>();
  for (const event of events.slice(2, -1)) {
    const { type, output_index: index, item, item_id: id, delta } = event;
    const place = open.get(index);
    if (type === 'response.output_item.added') {
      expect(index).toBe(open.size + done.filter((each) => each !== undefined).length);
      open.set(index, { id: asObject(item).id, text: '' });
    } else if (type === 'response.output_item.done') {
      expect(asObject(item).id).toBe(place?.id);
      done[Number(index)] = item;
      open.delete(index);
    } else {
      expect(id).toBe(place?.id);
      if (place && typeof delta === 'string') place.text += delta;
      const whole = event.text ?? event.arguments ?? event.input ?? event.refusal;
      if (asString(type)?.endsWith('.done') && typeof whole === 'string') {
        expect(whole).toBe(place?.text);
        if (place) place.text = '';
      }
    }
  }
  expect(open.size).toBe(0);
  expect(done).toEqual(asObject(last?.response).output);
}
