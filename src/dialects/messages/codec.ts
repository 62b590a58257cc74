/** The codec for Anthropic messages (docs/vendors.md). */

import { asObject, asString, isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { type BodySpans, type Member, scanMembers, setMember } from '../../core/json/spans.ts';
import { formatEvent } from '../../core/sse.ts';
import { type BillingReport, readBillingReport } from '../contract/billing-report.ts';
import type { RequestSummary, ResponseSummary, RouteCodec, StreamReader } from '../contract/route-codec.ts';
import { createMessagesUsage } from '../contract/token-usage.ts';
import { readVendorError, type VendorErrorBody } from '../contract/vendor-error.ts';
import {
  billedKeys,
  parseOutputLimit,
  parseStream,
  parseStringMember,
  parseUser,
  rejectBody,
  rejectDuplicateKeys,
} from '../json/body-members.ts';
import { appendBounded } from '../json/bounded-text.ts';
import { countGeneratedText } from '../json/generated-text.ts';
import { toJsonText } from '../json/json-text.ts';
import { createRepeatedEvent } from '../json/repeated-event.ts';
import { checksSignatures, omitUnsignedThinking } from './unsigned-thinking.ts';

const keys = ['model', 'stream', 'messages', 'system', 'metadata', ...billedKeys];
const limits = { names: ['max_tokens'], others: ['max_completion_tokens', 'max_output_tokens'] };

export const messages: RouteCodec = {
  route: 'messages',
  path: '/messages',
  parseRequest,
  patchForVendor: (body, spans, vendorModel) => [
    setMember(spans, 'model', JSON.stringify(vendorModel)),
    ...(checksSignatures(vendorModel) ? omitUnsignedThinking(body, spans) : []),
  ],
  parseResponse,
  createStreamReader,
  formatStreamError: (message) => formatEvent('error', { type: 'error', error: { type: 'api_error', message } }),
};

const metadataKeys: ReadonlySet<string> = new Set(['user_id']);

/** The error messages match those of the vendor's API, because SDKs show them to users. */
function parseRequest(body: Buffer, spans: BodySpans): RequestSummary {
  rejectDuplicateKeys(spans, keys);
  const { members } = spans;
  const model = parseModel(body, spans);
  const stream = parseStream(spans, 'stream: Input should be a valid boolean');
  const maxTokens = members.get('max_tokens');
  if (!maxTokens) rejectBody('max_tokens: Field required');
  if (maxTokens.kind !== 'number') rejectBody('max_tokens: Input should be a valid integer');
  requireMessages(spans);
  return { model, stream, maxOutputTokens: parseOutputLimit(body, spans, limits), user: parseMetadataUser(body, members.get('metadata')) };
}

/** Returns the same as `parseUser`. An empty string also means that `metadata` isn't an object or repeats `user_id`. */
function parseMetadataUser(body: Buffer, metadata: Member | undefined): string | null {
  if (metadata === undefined || metadata.kind === 'null') return null;
  if (metadata.kind !== 'object') return '';
  const { members, repeated } = scanMembers(body, metadata.value.start, metadataKeys);
  return repeated.size > 0 ? '' : parseUser(body, members.get('user_id'));
}

export function parseModel(body: Buffer, { members }: BodySpans): string | null {
  const model = members.get('model');
  if (model && model.kind !== 'string') rejectBody('model: Input should be a valid string');
  return parseStringMember(body, model) || null;
}

export function requireMessages({ members }: BodySpans): void {
  const list = members.get('messages');
  if (!list) rejectBody('messages: Field required');
  if (list.kind !== 'array') rejectBody('messages: Input should be a valid list');
}

function parseResponse(bytes: Buffer): ResponseSummary | null {
  const response = parseJson(bytes.toString('utf8'));
  if (!isObject(response) || !Array.isArray(response.content)) return null;
  const blocks = response.content.map(asObject);
  const text = blocks.map((block) => (block.type === 'text' ? (asString(block.text) ?? '') : '')).join('');
  const toolCalls = blocks
    .filter((block) => block.type === 'tool_use')
    .map((block) => ({ name: asString(block.name) ?? '', arguments: toJsonText(block.input ?? {}) }));
  const usage = createMessagesUsage();
  usage.read(response.usage);
  const isFinal = usage.isComplete();
  return {
    tokens: usage.tokens(),
    isFinal,
    turn: { text, toolCalls },
    generatedCharacters: isFinal ? 0 : countGeneratedText(blocks),
    finished: typeof response.stop_reason === 'string',
    ...readBillingReport({ usage: response.usage }),
  };
}

/**
 * Returns the event's text if it does nothing but continue a text block. Returns null for any other event, even if it
 * has text in other fields.
 */
function readTextDelta(event: unknown): string | null {
  const { type, delta } = asObject(event);
  const { type: deltaType, text } = asObject(delta);
  if (type !== 'content_block_delta' || deltaType !== 'text_delta' || typeof text !== 'string') return null;
  return countGeneratedText(delta) === text.length ? text : null;
}

function createStreamReader(): StreamReader {
  const repeated = createRepeatedEvent({
    member: 'text',
    readText: (data) => readTextDelta(parseJson(data)),
  });
  const counts = createMessagesUsage();
  let report: BillingReport = {};
  let generatedCharacters = 0;
  let openBlocks = 0;
  let isEnded = false;
  let text = '';
  let finished = false;
  let problem: VendorErrorBody | null = null;
  const toolCalls = new Map<unknown, { name: string; arguments: string }>();
  const wholeInputs = new Map<unknown, string>();

  const readUsage = (usage: unknown): void => {
    counts.read(usage);
    report = { ...report, ...readBillingReport({ usage }) };
  };

  const readDelta = (index: unknown, delta: unknown): void => {
    const { type, text: more, partial_json: json } = asObject(delta);
    if (type === 'text_delta') text = appendBounded(text, asString(more) ?? '');
    const call = toolCalls.get(index);
    if (type === 'input_json_delta' && call)
      toolCalls.set(index, { name: call.name, arguments: appendBounded(call.arguments, asString(json) ?? '') });
  };

  return {
    read(event) {
      const more = repeated.read(event.data);
      if (more !== null) {
        text = appendBounded(text, more);
        generatedCharacters += more.length;
        return 'delta';
      }
      if (event.data === '') return 'ignored';
      const data = parseJson(event.data);
      if (!isObject(data) || typeof data.type !== 'string') return 'unreadable';
      switch (data.type) {
        case 'ping':
          return 'ignored';
        case 'error':
          problem = readVendorError(data);
          return 'error';
        case 'message_stop':
          return 'end';
        case 'message_start':
          readUsage(asObject(data.message).usage);
          generatedCharacters += countGeneratedText(asObject(data.message).content);
          return 'opening';
        case 'message_delta':
          readUsage(data.usage);
          finished ||= typeof asObject(data.delta).stop_reason === 'string';
          isEnded ||= isObject(data.usage);
          return 'delta';
        case 'content_block_start': {
          const block = asObject(data.content_block);
          generatedCharacters += countGeneratedText(block);
          openBlocks += 1;
          if (block.type === 'text') text = appendBounded(text, asString(block.text) ?? '');
          if (block.type === 'tool_use') {
            toolCalls.set(data.index, { name: asString(block.name) ?? '', arguments: '' });
            wholeInputs.set(data.index, toJsonText(block.input ?? {}));
          }
          return block.text === '' || block.thinking === '' ? 'opening' : 'delta';
        }
        case 'content_block_delta': {
          readDelta(data.index, data.delta);
          generatedCharacters += countGeneratedText(data.delta);
          const textDelta = readTextDelta(data);
          if (textDelta !== null) repeated.learn(event.data, textDelta);
          return 'delta';
        }
        case 'content_block_stop':
          openBlocks -= 1;
          return 'delta';
        default:
          return 'ignored'; // Unknown events are forwarded (docs/vendors.md).
      }
    },
    // Some vendors send a tool's complete input in the start event and no deltas. A tool without any input, or with a
    // single empty delta, was called without arguments, so its input becomes `{}`.
    summary: () => {
      const calls = [...toolCalls].map(([index, call]) => ({ ...call, arguments: call.arguments || (wholeInputs.get(index) ?? '{}') }));
      const turn = { text, toolCalls: calls };
      return { tokens: counts.tokens(), isFinal: isEnded && counts.isComplete(), turn, generatedCharacters, finished, ...report };
    },
    // The vendor sends the stop reason together with the usage. Until then, we assume that the output is complete
    // whenever no block is open.
    hasAllOutput: () => finished || (generatedCharacters > 0 && openBlocks === 0),
    finished: () => false,
    problem: () => problem,
  };
}
