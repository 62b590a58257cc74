/** `POST /v1/completions`, OpenAI's legacy route. We convert its requests to chat calls and the responses back. */
import { completionToChat, createCompletionStream, fromChatCompletion } from '../../dialects/translate/completions.ts';
import type { DeliverStream } from '../../pipeline/call/deliver-stream.ts';
import { createTextRoute, type FormatConversion, type TextRouteDeps } from './text.ts';

const overChat: FormatConversion = {
  toRoute: completionToChat,
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
