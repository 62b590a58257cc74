/** The codec for OpenAI responses (docs/vendors.md). Used for vendors that have this route themselves. */

import type { AssistantTurn } from '../../core/call.ts';
import { asArray, asObject, asString, isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { type BodySpans, cutElements, decodeString, type Span, type Splice, scanElements, scanMembers } from '../../core/json/spans.ts';
import type { Tokens } from '../../core/pricing.ts';
import { formatEvent } from '../../core/sse.ts';
import { type BillingReport, readBillingReport } from '../contract/billing-report.ts';
import type { ResponseSummary, RouteCodec, StreamReader } from '../contract/route-codec.ts';
import { parseResponsesUsage } from '../contract/token-usage.ts';
import { readVendorError, type VendorErrorBody } from '../contract/vendor-error.ts';
import { appendBounded } from '../json/bounded-text.ts';
import { countGeneratedText } from '../json/generated-text.ts';
import { sealMark, unsealReasoning } from '../json/sealed-reasoning.ts';
import { parsePassthroughRequest, patchModel, reportsError } from './codecs.ts';

const limits = { names: ['max_output_tokens'], others: ['max_completion_tokens', 'max_tokens'] };

export const responses: RouteCodec = {
  route: 'responses',
  path: '/responses',
  parseRequest: (body, spans) => parsePassthroughRequest(body, spans, { mayStream: true, limits }),
  patchForVendor: (body, spans, vendorModel) => [...patchModel(body, spans, vendorModel), ...omitSealedReasoning(body, spans)],
  parseResponse(bytes) {
    const body = parseJson(bytes.toString('utf8'));
    // A failed response has an `error` as well as `output`. It's still a valid response.
    const isResponse = isObject(body) && (Array.isArray(body.output) || !reportsError(body));
    return isResponse ? parseResponse(body) : null;
  },
  createStreamReader,
  formatStreamError: (message) => formatFailure(message, 0),
};

const inputKey = new Set(['input']);
const contentKey = new Set(['encrypted_content']);

/**
 * Returns the splices that remove reasoning items sealed by the gateway. They belong to another vendor, and this vendor
 * would reject them.
 */
function omitSealedReasoning(body: Buffer, { object }: BodySpans): Splice[] {
  if (!body.includes(`"${sealMark}`)) return [];
  const input = scanMembers(body, object.start, inputKey).members.get('input');
  if (input?.kind !== 'array') return [];
  const items = [...scanElements(body, input.value.start)];
  return cutElements(
    items.map(({ value }) => value),
    items.map(({ kind, value }) => kind === 'object' && isSealed(body, value)),
  );
}

function isSealed(body: Buffer, item: Span): boolean {
  const content = scanMembers(body, item.start, contentKey).members.get('encrypted_content');
  return content?.kind === 'string' && unsealReasoning(decodeString(body, content.value)) !== null;
}

function parseResponse(response: Readonly<Record<string, unknown>>): ResponseSummary {
  const tokens = parseResponsesUsage(response.usage);
  return {
    tokens,
    isFinal: tokens !== null,
    turn: readAssistantTurn(response),
    generatedCharacters: countGeneratedText(response.output),
    ...(isRunning(response) && { isPending: true }),
    ...(typeof response.id === 'string' && { responseId: response.id }),
    ...readBillingReport(response),
  };
}

function isRunning({ status }: Readonly<Record<string, unknown>>): boolean {
  return status === 'queued' || status === 'in_progress';
}

/**
 * Reads the assistant's text and tool calls from a response. We join text blocks without a separator. Tools that the
 * vendor runs itself don't count as tool calls (docs/api/reference.md#memory-rules).
 */
export function readAssistantTurn(response: Readonly<Record<string, unknown>>): AssistantTurn {
  const items = asArray(response.output).map(asObject);
  const parts = items.filter(({ type }) => type === 'message').flatMap(({ content }) => asArray(content).map(asObject));
  const text = parts.map((part) => asString(part.text) ?? asString(part.refusal) ?? '').join('');
  const toolCalls = items
    .filter(({ type }) => type === 'function_call' || type === 'custom_tool_call')
    .map((item) => ({ name: asString(item.name) ?? '', arguments: asString(item.arguments) ?? asString(item.input) ?? '' }));
  return { text, toolCalls };
}

/**
 * Formats the event that reports a failure. According to OpenAI's documentation these fields are at the top level, but
 * OpenAI sends them inside `error`, and its SDKs look for them there. We send both, because other clients follow the
 * documentation.
 */
function formatFailure(message: string, sequenceNumber: number): string {
  const problem = { code: 'upstream_failed', message, param: null };
  const error = { type: problem.code, ...problem };
  return formatEvent('error', { type: 'error', ...problem, sequence_number: sequenceNumber, error });
}

/** Matches events that only announce a part of the response. The content of the part follows in later events. */
const openings = /^response\.(?:content_part|reasoning_summary_part)\.added$/;

function createStreamReader(): StreamReader {
  let text = '';
  let problem: VendorErrorBody | null = null;
  let complete: ResponseSummary | null = null;
  let tokens: Tokens | null = null;
  let report: BillingReport = {};
  let isBackground = false;
  let openItems = 0;
  let sequenceNumber = -1;
  /** Maps each output item to the number of characters generated so far. */
  const characters = new Map<unknown, number>();
  /** Completed items, needed to count tool uses. */
  const output: unknown[] = [];

  const countCharacters = (): number => {
    let sum = 0;
    for (const count of characters.values()) sum += count;
    return sum;
  };
  const addCharacters = (index: unknown, value: unknown): void => {
    characters.set(index, (characters.get(index) ?? 0) + countGeneratedText(value));
  };

  return {
    read(event) {
      if (event.data === '') return 'ignored';
      const data = parseJson(event.data);
      if (!isObject(data) || typeof data.type !== 'string') return 'unreadable';
      if (typeof data.sequence_number === 'number') sequenceNumber = data.sequence_number;
      switch (data.type) {
        case 'error':
          problem = readVendorError(isObject(data.error) ? data : { error: data });
          return 'error';
        case 'response.failed': {
          const response = asObject(data.response);
          problem = readVendorError(response);
          tokens = parseResponsesUsage(response.usage);
          report = readBillingReport(response);
          isBackground = false;
          return 'error';
        }
        case 'response.completed':
        case 'response.incomplete':
          complete = parseResponse(asObject(data.response));
          return 'end';
        case 'keepalive':
        case 'ping':
          return 'ignored';
        case 'response.created':
        case 'response.queued':
        case 'response.in_progress':
          isBackground = asObject(data.response).background === true;
          return 'opening';
        case 'response.output_item.added':
          openItems += 1;
          addCharacters(data.output_index, data.item);
          return 'opening';
        case 'response.output_item.done':
          openItems -= 1;
          output.push(data.item);
          // Not all vendors send deltas for every kind of item, so count the complete item as well.
          characters.set(data.output_index, Math.max(characters.get(data.output_index) ?? 0, countGeneratedText(data.item)));
          return 'delta';
        case 'response.output_text.delta':
        case 'response.refusal.delta':
          text = appendBounded(text, asString(data.delta) ?? '');
          addCharacters(data.output_index, data.delta);
          return 'delta';
        default:
          if (data.type.endsWith('.delta')) addCharacters(data.output_index, data.delta);
          return openings.test(data.type) ? 'opening' : 'delta';
      }
    },
    // Normally the last event contains the complete response. If the stream broke before that, only the deltas are
    // left.
    summary() {
      const generatedCharacters = countCharacters();
      if (complete) return { ...complete, generatedCharacters: Math.max(complete.generatedCharacters, generatedCharacters) };
      return {
        tokens,
        isFinal: tokens !== null,
        turn: { text, toolCalls: [] },
        generatedCharacters,
        ...(isBackground && { isPending: true }),
        ...readBillingReport({ output }),
        ...report,
      };
    },
    // We assume that the output is complete whenever no item is open, although the vendor might still start another
    // one.
    hasAllOutput: () => complete !== null || (output.length > 0 && openItems === 0),
    finished: () => false,
    formatFailure: (message) => formatFailure(message, sequenceNumber + 1),
    problem: () => problem,
  };
}
