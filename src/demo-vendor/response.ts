/** The demo vendor's request and response values. Handlers map one to the other without access to the socket. */
import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from './json.ts';
import type { Script } from './scripts.ts';

export interface IncomingRequest {
  /** Counts this vendor's requests from 1. Response ids contain it, so that every response has a different id. */
  readonly requestNumber: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The parsed body; an empty object for requests without a body. */
  readonly json: JsonObject;
  readonly script: Script;
  /** The variable part of the path: a model, a voice or the name of an operation. */
  readonly pathParam: string;
  /** Base URL of this vendor, for links in responses. */
  readonly origin: string;
}

/** Complete server-sent events (`data: ...` and the blank line), generated while they are sent: opening, then deltas, then closing. */
export interface EventStream {
  readonly opening: Iterable<string>;
  /** Events that carry content. `break-after-<n>` and similar terms count them, and pacing applies to them. */
  readonly deltas: Iterable<string>;
  readonly closing: Iterable<string>;
  /** The event that reports an error in the middle of a stream. */
  error(): string;
}

export type OutgoingResponse =
  | { readonly kind: 'body'; readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: string | Buffer }
  | { readonly kind: 'stream'; readonly stream: EventStream }
  | { readonly kind: 'silence' };

export function jsonResponse(value: unknown): OutgoingResponse {
  return { kind: 'body', status: 200, headers: jsonHeaders, body: JSON.stringify(value) };
}

export function binaryResponse(mediaType: string, body: Buffer): OutgoingResponse {
  return { kind: 'body', status: 200, headers: { 'content-type': mediaType }, body };
}

export function redirectResponse(location: string): OutgoingResponse {
  return { kind: 'body', status: 302, headers: { location }, body: '' };
}

export const jsonHeaders: Readonly<Record<string, string>> = { 'content-type': 'application/json' };

/** Creation time of every response (2025-11-21), so that equal requests get equal responses. */
export const createdAt = 1_763_678_400;
