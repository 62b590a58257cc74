/**
 * Reads the parameters of a request that influence the response, such as the temperature, so that we can show them next
 * to its text. We leave out all other fields, because they could contain anything.
 */
import { isObject } from '../../core/json/narrow.ts';
import { scanMembers } from '../../core/json/spans.ts';
import { JsonSyntaxError, skipSpace } from '../../core/json/syntax.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { skipRemembered } from '../../dialects/json/known-regions.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';

const names = [
  ...['temperature', 'top_p', 'top_k', 'max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n', 'seed', 'stop', 'stop_sequences'],
  ...['frequency_penalty', 'presence_penalty', 'logit_bias', 'logprobs', 'top_logprobs', 'stream', 'response_format', 'text', 'modalities'],
  ...['reasoning_effort', 'reasoning', 'thinking', 'output_config', 'verbosity', 'tool_choice', 'parallel_tool_calls', 'service_tier'],
  ...['truncation', 'store'],
];
const wanted: ReadonlySet<string> = new Set(names);
/**
 * The fields that we want, and those that make a request long. The scanner can only skip the values of fields that are
 * listed here.
 */
const wantedOrLong: ReadonlySet<string> = new Set([...names, 'messages', 'input', 'system', 'instructions', 'tools']);

/**
 * We don't scan the messages of a request that's larger than this just to find its parameters. So we can only store its
 * parameters if we already know where its messages end.
 */
const maxBodyBytes = 262_144;
/** The maximum size of the stored parameters. A parameter such as a JSON schema can be long. */
const maxParametersBytes = 16_384;

/**
 * Returns the parameters of a parsed request as JSON. Returns undefined if one of them isn't a number, a boolean or
 * null. In that case, call `readParameters`. It's slower because it searches the body, but it can handle deeply nested
 * values.
 */
export function readPlainParameters(request: unknown): string | null | undefined {
  if (!isObject(request)) return null;
  let text = '';
  for (const key in request) {
    if (!wanted.has(key)) continue;
    const value = request[key];
    if (!Number.isFinite(value) && typeof value !== 'boolean' && value !== null) return undefined;
    text += `${text === '' ? '' : ','}"${key}":${value}`;
  }
  return `{${text}}`;
}

/**
 * Returns the parameters as JSON, or `{}` if the request doesn't set any. Returns null if the request isn't a JSON
 * object, or if it or its parameters are too long.
 */
export function readParameters(body: Buffer): string | null {
  const skip = skipRemembered(body);
  if (body.length > maxBodyBytes && !skip) return null;
  try {
    const { members } = scanMembers(body, skipSpace(body, 0), skip ? wantedOrLong : wanted, skip);
    const parts: string[] = [];
    let hasText = false;
    for (const { key, kind, value } of members.values()) {
      if (!wanted.has(key)) continue;
      parts.push(`"${key}":${body.toString('utf8', value.start, value.end)}`);
      hasText ||= kind === 'string' || kind === 'object' || kind === 'array';
    }
    const text = `{${parts.join(',')}}`;
    if (!hasText) return text;
    return text.length > maxParametersBytes ? null : toPostgresText(maskCredentials(text));
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}
