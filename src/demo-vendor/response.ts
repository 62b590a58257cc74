/**
 * The demo vendor's requests and responses. Handlers turn a request into a response and have no access to the socket.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from './json.ts';

export interface DemoRequest {
  /** Requests are numbered from 1. The ids in a response contain this number, so that they're all different. */
  readonly requestNumber: number;
  readonly method: string;
  /** The path, including the query. */
  readonly url: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The parsed body. If there's none, it's an empty object. */
  readonly json: JsonObject;
  readonly model: string;
  /** The variable part of the path, e.g. the name of a model, file or operation. */
  readonly pathParam: string;
  /** The scheme and host under which clients reach us. Links in responses begin with this. */
  readonly origin: string;
}

/**
 * A stream of server-sent events. Every string is a complete event (`data: ...` and a blank line). We generate them
 * while we're sending.
 */
export interface EventStream {
  readonly opening: Iterable<string>;
  /** The events with content. `paceMs` and `break-after-<n>` don't affect any other events. */
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

/** All responses claim to have been created on 2025-11-21, so that identical requests get identical responses. */
export const createdAt = 1_763_678_400;
