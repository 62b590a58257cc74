/** The two values of the demo vendor: what it was asked, and what it answers. Handlers make one of the other and touch no socket. */
import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from './json.ts';
import type { Script } from './scripts.ts';

export interface IncomingRequest {
  /** Counts the requests of this vendor from 1; ids of answers are made of it, so that two answers can be told apart. */
  readonly order: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The body; an empty object for requests without one. */
  readonly json: JsonObject;
  readonly script: Script;
  /** What the route's pattern caught in the path: a model, a voice, the name of an operation. */
  readonly pathParam: string;
  /** Address of this vendor, for links in answers. */
  readonly origin: string;
}

/** Server-sent events, whole (`data: ...` and the blank line), made while they are sent: first opening, then pieces, then closing. */
export interface EventStream {
  readonly opening: Iterable<string>;
  /** Events that carry content: what `break-after-<n>` and its like count, and what is paced. */
  readonly pieces: Iterable<string>;
  readonly closing: Iterable<string>;
  /** The event that tells a fault in the middle. */
  fault(): string;
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

/** All answers are of this second (2025-11-21): what is asked twice is answered alike. */
export const createdAt = 1_763_678_400;
