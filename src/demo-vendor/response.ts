/** The requests and responses of the demo vendor. Handlers turn a request into a response and never see the socket. */
import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from './json.ts';

export interface DemoRequest {
  /**
   * The number of the request, counted from 1. It's part of the ids in responses, so every response has different ids.
   */
  readonly requestNumber: number;
  readonly method: string;
  /** The path including the query. */
  readonly url: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The parsed body, or an empty object if the request has no body. */
  readonly json: JsonObject;
  readonly model: string;
  /** The variable part of the path, such as a model, a file or the name of an operation. */
  readonly pathParam: string;
  /** The base URL of this vendor, which we use for links in responses. */
  readonly origin: string;
}

/**
 * A stream of server-sent events. Each string is a complete event (`data: ...` and the blank line). They are generated
 * while they are sent, first the opening, then the deltas, and then the closing.
 */
export interface EventStream {
  readonly opening: Iterable<string>;
  /** The events that contain content. `break-after-<n>` counts these, and pacing applies to them. */
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

/** The creation time of every response (2025-11-21). It's constant so that equal requests get equal responses. */
export const createdAt = 1_763_678_400;
