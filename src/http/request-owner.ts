/** Finds out which project sent a request before we handle the request, so that we can treat projects fairly. */
import type { IncomingMessage } from 'node:http';
import type { Caller } from '../core/call.ts';
import { parseKey } from './authenticate.ts';

/** Returns the project of a request's virtual key, or the client's address if we don't know the key. */
export type RequestOwner = (request: IncomingMessage) => string;

/** `findCached` returns null if we'd have to ask the database, and throws if the key is revoked or expired. */
export function createRequestOwner(findCached: (key: string) => Caller | null): RequestOwner {
  return ({ headers, socket }) => {
    try {
      const caller = findCached(parseKey(headers, true));
      if (caller) return caller.projectId;
    } catch {
      // If the key is missing or invalid, the handler of the request reports that, so ignore it here.
    }
    return socket.remoteAddress ?? '';
  };
}
