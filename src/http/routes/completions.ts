/** `POST /v1/completions`, the legacy route of OpenAI: a chat completion in the older format, in every other respect a chat call. */
import { createCompletionStream, fromChatCompletion, toChatRequest } from '../../dialects/translate/completions.ts';
import { scanJson } from '../body.ts';
import { createTextRoute, type FormatConversion, type TextRouteDeps } from './text.ts';

const overChat: FormatConversion = {
  toRoute(body) {
    // For the syntax errors of all routes.
    scanJson(body, new Set());
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
