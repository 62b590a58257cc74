/** The demo vendor's requests and responses. Handlers turn a request into a response and never see the socket. */
import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from './json.ts';

export interface DemoRequest {
  /** The number of the request, starting at 1. Ids in the response contain it, so that they're all different. */
  readonly requestNumber: number;
  readonly method: string;
  /** The path with the query. */
  readonly url: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The parsed body, or an empty object if the request has no body. */
  readonly json: JsonObject;
  readonly model: string;
  /** The variable part of the path, such as the name of a model, file or operation. */
  readonly pathParam: string;
  /** Where clients reach this vendor, for links in responses. */
  readonly origin: string;
}

/**
 * A stream of server-sent events. Each string is a complete event (`data: ...` and a blank line). The opening, the
 * deltas and the closing are generated while they're being sent.
 */
export interface EventStream {
  readonly opening: Iterable<string>;
  /** The events that carry content. Pacing and `break-after-<n>` count only these. */
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

/**
 * The creation time of all responses (2025-11-21). It's constant, so that identical requests get identical responses.
 */
export const createdAt = 1_763_678_400;
