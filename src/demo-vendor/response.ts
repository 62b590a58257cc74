/** Requests and responses of the demo vendor. Handlers turn one into the other and never see the socket. */
import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from './json.ts';

export interface DemoRequest {
  /** Counts this vendor's requests from 1. Response ids contain it, so that every response has a different id. */
  readonly requestNumber: number;
  readonly method: string;
  /** The path with the query. */
  readonly url: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The parsed body; an empty object for requests without a body. */
  readonly json: JsonObject;
  readonly model: string;
  /** The variable part of the path: a model, a file or the name of an operation. */
  readonly pathParam: string;
  /** Base URL of this vendor, for links in responses. */
  readonly origin: string;
}

/** Complete server-sent events (`data: ...` and the blank line), generated while they are sent: opening, then deltas, then closing. */
export interface EventStream {
  readonly opening: Iterable<string>;
  /** Events that carry content. `break-after-<n>` counts them, and pacing applies to them. */
  readonly deltas: Iterable<string>;
  readonly closing: Iterable<string>;
}

export type DemoResponse =
  | { readonly kind: 'body'; readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: string | Buffer }
  | { readonly kind: 'stream'; readonly stream: EventStream };

export function jsonResponse(value: unknown): DemoResponse {
  return { kind: 'body', status: 200, headers: jsonHeaders, body: JSON.stringify(value) };
}

export function binaryResponse(mediaType: string, body: Buffer): DemoResponse {
  return { kind: 'body', status: 200, headers: { 'content-type': mediaType }, body };
}

export const jsonHeaders: Readonly<Record<string, string>> = { 'content-type': 'application/json' };

/** Creation time of every response (2025-11-21), so that equal requests get equal responses. */
export const createdAt = 1_763_678_400;
