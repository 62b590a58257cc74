/**
 * Translates OpenAI's legacy completions to chat completions and back. The prompt becomes the user's message, and all
 * fields that exist in both formats are forwarded. If chat can't express something, the request is rejected.
 */
import { asArray, asObject, asString, isNestedDeeper, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { createSseParser, formatEvent, type SseEvent } from '../../core/sse.ts';
import { rejectBody, rejectDuplicateKeys, scanJson } from '../json/body-members.ts';
import { asNumber, isLosslessObject, omitNullish } from '../json/lossless-json.ts';
import { parseLossless } from '../json/parse-lossless.ts';

/** Fields that the translation reads. A body that repeats one of them is rejected, like on the chat route. */
const readKeys = ['model', 'prompt', 'stream', 'max_tokens', 'n', 'user'];

/** Returns the body of the chat completion. Throws `bad_json` if the body is invalid or chat can't express it. */
export function completionToChat(body: Buffer): Buffer {
  // Scan the body first, so that syntax errors look the same on all routes.
  rejectDuplicateKeys(scanJson(body, new Set(readKeys)), readKeys);
  const parsed = parseLossless(body.toString('utf8'));
  if (!isLosslessObject(parsed)) rejectBody('the body is nested too deeply, or has too many values');
  // Drop fields that vendors reject in a chat completion even if their value has no effect.
  const { prompt, suffix, echo, logprobs, best_of: bestOf, ...shared } = omitNullish(parsed);
  if (suffix !== undefined && suffix !== '') rejectBody('suffix: is not supported, because the completion is made by a chat model');
  if (echo !== undefined && echo !== false) rejectBody('echo: is not supported, because the completion is made by a chat model');
  if (logprobs !== undefined) rejectBody('logprobs: is not supported, because the completion is made by a chat model');
  if (bestOf !== undefined && asNumber(bestOf) !== (asNumber(shared.n) ?? 1)) rejectBody('best_of: is not supported; use n instead');
  const content = Array.isArray(prompt) && prompt.length === 1 ? prompt[0] : prompt;
  if (typeof content !== 'string') rejectBody('prompt: must be a string, or a list of one string');
  return Buffer.from(JSON.stringify({ ...shared, messages: [{ role: 'user', content }] }));
}

export function fromChatCompletion(bytes: Buffer): Buffer {
  const completion = parseJson(bytes.toString('utf8'));
  return isObject(completion) ? Buffer.from(JSON.stringify(toCompletion(completion, 'message'))) : bytes;
}

/**
 * Translates the chunks of a stream. Chunks without text, finish reason and usage are dropped, e.g. the one with the
 * role. A chunk with usage keeps its choices, because some vendors send usage in every chunk, and callers expect each
 * chunk to have `choices[0]`.
 */
export function createCompletionStream(): { push(bytes: Buffer): string; end(): string } {
  const parser = createSseParser();
  const translate = ({ data }: SseEvent): string => {
    if (data === '[DONE]') return 'data: [DONE]\n\n';
    // Keep-alives have no data. Parsing them would throw an exception for each.
    const chunk = data === '' ? null : parseJson(data);
    if (!isObject(chunk) || isNestedDeeper(chunk)) return '';
    if (!Array.isArray(chunk.choices)) return formatEvent(null, chunk);
    const completion = toCompletion(chunk, 'delta');
    if (isObject(chunk.usage)) return formatEvent(null, completion);
    const choices = asArray(completion.choices).filter((choice) => asObject(choice).text !== '' || asObject(choice).finish_reason !== null);
    return choices.length === 0 ? '' : formatEvent(null, { ...completion, choices });
  };
  return {
    push: (bytes) => parser.push(bytes).events.map(translate).join(''),
    // If there's no blank line after the vendor's last event, the parser still holds that event.
    end: () => parser.end().events.map(translate).join(''),
  };
}

function toCompletion(response: JsonObject, textIn: 'message' | 'delta'): JsonObject {
  const choices = asArray(response.choices).map((choice) => {
    const { index = 0, finish_reason: reason, [textIn]: message } = asObject(choice);
    const { content, refusal } = asObject(message);
    const text = asString(content) ?? asString(refusal) ?? '';
    return { text, index, logprobs: null, finish_reason: asString(reason) === null ? null : toFinishReason(reason) };
  });
  return { ...response, object: 'text_completion', choices };
}

/** Legacy completions have no tools, so a finish reason about a tool call becomes `stop`. */
function toFinishReason(reason: unknown): unknown {
  return reason === 'tool_calls' || reason === 'function_call' ? 'stop' : reason;
}
