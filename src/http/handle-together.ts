/** Decides when the requests that have been read are handled. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';

/** Opening a stream takes 1.3 ms, so more requests at once would noticeably delay other calls. */
const maxPerTurn = 8;

/**
 * Handles up to eight requests in a turn of the event loop, after they have all been read. A chat takes 8 % less CPU time than when reading
 * and handling alternate (measured with 16 connections), probably because each displaces the code of the other from the processor's caches.
 *
 * If there are more, the callers with the fewest waiting requests come first. A caller that sends a thousand requests at once therefore doesn't
 * delay the single requests of others, which arrive while these wait.
 */
export function handleTogether(listener: RequestListener): RequestListener {
  let waiting: ServerResponse[] = [];
  const handleWaiting = (): void => {
    let responses = waiting;
    waiting = [];
    if (responses.length > maxPerTurn) {
      const ordered = fewestFirst(responses);
      responses = ordered.slice(0, maxPerTurn);
      waiting = ordered.slice(maxPerTurn);
      setImmediate(handleWaiting);
    }
    for (const response of responses) listener(response.req, response);
  };
  return (_request, response) => {
    if (waiting.push(response) === 1) setImmediate(handleWaiting);
  };
}

/** Keeps the order of requests of the same caller. */
function fewestFirst(responses: readonly ServerResponse[]): ServerResponse[] {
  const byCaller = Map.groupBy(responses, ({ req }) => callerOf(req));
  return [...byCaller.values()].sort((a, b) => a.length - b.length).flat();
}

/** The key has not been checked yet, so an attacker can appear as many callers. That costs no more than to have many addresses. */
function callerOf({ headers, socket }: IncomingMessage): string {
  const key = headers.authorization ?? headers['x-api-key'] ?? socket.remoteAddress ?? '';
  return typeof key === 'string' ? key : key.join();
}
