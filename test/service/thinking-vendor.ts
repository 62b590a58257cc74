/**
 * A vendor for both dialects whose model thinks and then calls a tool. Like Anthropic, it rejects the tool result
 * unless the thinking comes back unchanged.
 */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { isDeepStrictEqual } from 'node:util';
import {
  chatAnswer,
  chatStream,
  messagesAnswer,
  messagesStream,
  reasoningDetails,
  type Said,
  thinkingBlocks,
} from '../dialects/translate/vendors.ts';
import type { Dialect } from './dialects-gateway.ts';

export const firstTurn: Said = {
  ...{ id: 'thinking1', model: 'thinker', text: '', thinking: 'Oslo: I need "its" weather.', sealed: '', form: 'reasoning_details' },
  tools: [{ id: 'toolu_01', name: 'get_weather', arguments: { city: 'Oslo' } }],
  ...{ end: 'stop', cuts: [5, 2], interleaved: false, hasToolIds: true, hasUsage: true },
  tokens: { input: 10, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 5 },
};
const secondTurn: Said = { ...firstTurn, id: 'thinking2', text: 'It rains in Oslo.', thinking: '', tools: [] };

export interface ThinkingRequest {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  readonly stream?: boolean;
  readonly [member: string]: unknown;
}

export interface ThinkingVendor {
  readonly url: string;
  /** The requests so far. */
  readonly requests: ThinkingRequest[];
  stop(): Promise<void>;
}

export async function startThinkingVendor(): Promise<ThinkingVendor> {
  const requests: ThinkingRequest[] = [];
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await text(request)) as ThinkingRequest;
    requests.push(body);
    respond(response, request.url === '/v1/messages' ? 'messages' : 'chat', body);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async stop() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

function respond(response: ServerResponse, dialect: Dialect, { messages, stream }: ThinkingRequest): void {
  const [, called] = messages;
  if (called !== undefined && !isReturned(dialect, called)) {
    const error = { type: 'invalid_request_error', message: 'messages.1: thinking must come back as it was' };
    response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ type: 'error', error }));
    return;
  }
  const turn = called === undefined ? firstTurn : secondTurn;
  const [toJson, toStream] = dialect === 'chat' ? [chatAnswer, chatStream] : [messagesAnswer, messagesStream];
  response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' });
  response.end(stream ? toStream(turn) : JSON.stringify(toJson(turn)));
}

/** Whether an assistant message begins with the thinking of the first turn. */
function isReturned(
  dialect: Dialect,
  { content, reasoning_content: reasoning, reasoning_details: details }: Readonly<Record<string, unknown>>,
): boolean {
  if (dialect === 'messages') return Array.isArray(content) && isDeepStrictEqual(content.slice(0, 1), thinkingBlocks(firstTurn));
  // A vendor that accepts text receives no details.
  return reasoning === firstTurn.thinking && (details === undefined || isDeepStrictEqual(details, reasoningDetails(firstTurn)));
}
