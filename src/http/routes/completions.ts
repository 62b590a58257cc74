/** `POST /v1/completions`, the legacy route of OpenAI: a chat completion in the older format, in every other respect a chat call. */
import { rejectDuplicateKeys } from '../../dialects/json/body-members.ts';
import { createCompletionStream, fromChatCompletion, toChatRequest } from '../../dialects/translate/completions.ts';
import type { DeliverStream } from '../../pipeline/call/deliver-stream.ts';
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
      : { ...response, deliver: convertStream(response.deliver) },
};

export function createCompletionsRoute(deps: TextRouteDeps) {
  return createTextRoute('chat', deps, overChat);
}

function convertStream(deliver: DeliverStream): DeliverStream {
  return async (write) => {
    const stream = createCompletionStream();
    const send = (text: string): boolean | Promise<boolean> => text === '' || write(Buffer.from(text));
    const end = await deliver((bytes) => send(stream.push(bytes)));
    if (end === 'ended') await send(stream.end());
    return end;
  };
}
