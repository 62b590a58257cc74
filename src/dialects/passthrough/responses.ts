/** OpenAI responses (vendor facts 1.5): passed through to vendors that serve the path. */

import { asArray, asObject, asString, isObject, parseJson } from '../../core/json/narrow.ts';
import type { Tokens } from '../../core/pricing.ts';
import type { AnswerReading, RouteRules, StreamReader } from '../contract/route-codec.ts';
import { readResponsesUsage } from '../contract/token-usage.ts';
import { appendText } from '../json/bounded-text.ts';
import { readPassthroughRequest, spliceModel } from './codecs.ts';

export const responses: RouteRules = {
  route: 'responses',
  path: '/responses',
  readRequest: (body, spans) => readPassthroughRequest(body, spans, { mayStream: true, maxTokensKey: 'max_output_tokens' }),
  spliceForVendor: spliceModel,
  readAnswer(bytes) {
    const answer = parseJson(bytes.toString('utf8'));
    return isObject(answer) && Array.isArray(answer.output) ? readResponse(answer) : null;
  },
  createStreamReader,
  interruption: () => null,
};

/** Text blocks are joined with nothing between them; only calls of the caller's own functions are tool calls (specification 4.8 rule 4). */
function readResponse(response: Readonly<Record<string, unknown>>): AnswerReading {
  const items = asArray(response.output).map(asObject);
  const parts = items.filter(({ type }) => type === 'message').flatMap(({ content }) => asArray(content).map(asObject));
  const text = parts.map((part) => asString(part.text) ?? asString(part.refusal) ?? '').join('');
  const toolCalls = items
    .filter(({ type }) => type === 'function_call')
    .map((item) => ({ name: asString(item.name) ?? '', arguments: asString(item.arguments) ?? '' }));
  const tokens = readResponsesUsage(response.usage);
  return { tokens, isFinal: tokens !== null, turn: { text, toolCalls } };
}

function createStreamReader(): StreamReader {
  let text = '';
  let problem: string | null = null;
  let whole: AnswerReading | null = null;
  let tokens: Tokens | null = null;

  return {
    read(event) {
      if (event.data === '') return 'ignored';
      const data = parseJson(event.data);
      if (!isObject(data) || typeof data.type !== 'string') return 'unreadable';
      switch (data.type) {
        case 'error':
          problem = asString(data.message) ?? asString(asObject(data.error).message);
          return 'error';
        case 'response.failed': {
          const response = asObject(data.response);
          problem = asString(asObject(response.error).message);
          tokens = readResponsesUsage(response.usage);
          return 'error';
        }
        case 'response.completed':
        case 'response.incomplete':
          whole = readResponse(asObject(data.response));
          return 'end';
        case 'response.output_text.delta':
        case 'response.refusal.delta':
          text = appendText(text, asString(data.delta) ?? '');
          return 'piece';
        default:
          return 'piece';
      }
    },
    // The last event holds the whole answer; one that broke off is known by its text alone.
    reading: () => whole ?? { tokens, isFinal: tokens !== null, turn: { text, toolCalls: [] } },
    finished: () => false,
    problem: () => problem,
  };
}
