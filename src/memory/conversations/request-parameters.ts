/**
 * Reads the parameters of a request, such as the temperature, so that people can see them with its text. The parameters
 * are those that change the response. We leave out all others, because they may contain anything.
 */
import { scanMembers } from '../../core/json/spans.ts';
import { JsonSyntaxError, skipSpace } from '../../core/json/syntax.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';

const names = [
  ...['temperature', 'top_p', 'top_k', 'max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n', 'seed', 'stop', 'stop_sequences'],
  ...['frequency_penalty', 'presence_penalty', 'logit_bias', 'logprobs', 'top_logprobs', 'stream', 'response_format', 'text', 'modalities'],
  ...['reasoning_effort', 'reasoning', 'thinking', 'output_config', 'verbosity', 'tool_choice', 'parallel_tool_calls', 'service_tier'],
  ...['truncation', 'store'],
];
const wanted: ReadonlySet<string> = new Set(names);

/** To find the parameters of a larger request, we would spend too much time on its messages. */
const maxBodyBytes = 262_144;
/** A parameter such as a JSON schema may be long. */
const maxParametersBytes = 16_384;

/** Returns the JSON of the parameters. Returns null if there are none, or if they or the request are too long. */
export function readParameters(body: Buffer): string | null {
  if (body.length > maxBodyBytes) return null;
  try {
    const { members } = scanMembers(body, skipSpace(body, 0), wanted);
    const parts = [...members.values()].map(({ key, value }) => `${JSON.stringify(key)}:${body.toString('utf8', value.start, value.end)}`);
    if (parts.length === 0) return null;
    const text = `{${parts.join(',')}}`;
    return text.length > maxParametersBytes ? null : toPostgresText(maskCredentials(text));
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}
