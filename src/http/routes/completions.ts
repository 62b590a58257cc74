/** `POST /v1/completions`, the legacy route of OpenAI: a chat completion in the older format, in every other respect a chat call. */
import { rejectDuplicateKeys } from '../../dialects/json/body-members.ts';
import { createCompletionStream, fromChatCompletion, toChatRequest } from '../../dialects/translate/completions.ts';
import { scanJson } from '../body.ts';
import { createTextRoute, type FormatConversion, type TextRouteDeps } from './text.ts';

/** A body that repeats one of them is rejected, as on chat. */
const readKeys = ['model', 'prompt', 'stream', 'max_tokens', 'n', 'user'];

const overChat: FormatConversion = {
  toRoute(body) {
    // For the syntax errors of all routes.
    rejectDuplicateKeys(scanJson(body, new Set(readKeys)), readKeys);
    return toChatRequest(body);
  },
  toCaller: (response) =>
    response.kind === 'plain'
      ? { ...response, contentType: 'application/json', bytes: fromChatCompletion(response.bytes) }
      : { ...response, chunks: convertChunks(response.chunks) },
};

export function createCompletionsRoute(deps: TextRouteDeps) {
  return createTextRoute('chat', deps, overChat);
}

async function* convertChunks(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  const stream = createCompletionStream();
  for await (const bytes of chunks) {
    const text = stream.push(bytes);
    if (text !== '') yield Buffer.from(text);
  }
  const rest = stream.end();
  if (rest !== '') yield Buffer.from(rest);
}
