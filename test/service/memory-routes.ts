/** Calls the memory routes, and has types for the part of their responses that tests check. */
import { expect } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';

export const unknownId = '01936b1e-0000-7000-8000-000000000000';

export interface ItemJson {
  readonly id: string;
  readonly text: string;
  readonly kind: string;
  readonly importance: number;
  readonly subject: string | null;
  readonly pinned: boolean;
  readonly origin: string;
  readonly author: string;
  readonly state: string;
  readonly in_recall: boolean;
  readonly ratings: { readonly useful: number; readonly wrong: number };
  readonly supersedes: string | null;
  readonly superseded_by: string | null;
  readonly created_at: string;
  readonly closed_at: string | null;
}

export interface SearchJson {
  readonly vector: boolean;
  readonly memories: readonly { readonly item: ItemJson; readonly score: number; readonly matched_by: readonly string[] }[];
  readonly episodes: readonly {
    readonly id: string;
    readonly title: string | null;
    readonly subject: string | null;
    readonly snippet: string;
    readonly score: number;
  }[];
}

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

export const unknownItem = `/items/${unknownId}`;

/** Every memory route except erasure, with a valid body. With `needsBody`, a missing body returns `bad_request`. */
export const memoryRoutes: readonly {
  method: Method;
  path: string;
  good?: unknown;
  needsBody: boolean;
  mismatch?: 'bad_request' | 'plain';
}[] = [
  { method: 'POST', path: '/wake-up', good: {}, needsBody: false, mismatch: 'bad_request' },
  { method: 'POST', path: '/search', good: { query: 'x' }, needsBody: true, mismatch: 'plain' },
  { method: 'POST', path: '/recall', good: { text: 'x', dry_run: true }, needsBody: true, mismatch: 'plain' },
  { method: 'GET', path: `/episodes/${unknownId}`, needsBody: false },
  { method: 'POST', path: `/episodes/${unknownId}/remember`, good: { focus: 'names' }, needsBody: false, mismatch: 'bad_request' },
  { method: 'POST', path: '/items', good: { text: 'x' }, needsBody: true, mismatch: 'bad_request' },
  { method: 'PATCH', path: unknownItem, good: { text: 'x' }, needsBody: true, mismatch: 'bad_request' },
  { method: 'DELETE', path: unknownItem, needsBody: false },
  { method: 'POST', path: `${unknownItem}/rating`, good: { rating: 'useful' }, needsBody: true, mismatch: 'bad_request' },
  { method: 'POST', path: '/graph', good: {}, needsBody: false, mismatch: 'plain' },
];

/** Sends a request with the key. Strings are sent unchanged, and anything else is sent as JSON. */
export async function send(
  gateway: Pick<TestGateway, 'url' | 'key'>,
  method: Method,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<RouteResponse> {
  const response = await fetch(`${gateway.url}/v1/memory${path}`, {
    method,
    headers: { authorization: `Bearer ${gateway.key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, type: response.headers.get('content-type')?.split(';')[0] ?? '', text };
}

export interface RouteResponse {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/** Returns the JSON of a response with this status. */
export async function expectJson<Shape>(response: Promise<RouteResponse> | RouteResponse, status: number): Promise<Shape> {
  const { status: actualStatus, type, text } = await response;
  expect([actualStatus, type, text]).toEqual([status, 'application/json', text]);
  return JSON.parse(text) as Shape;
}

/** Expects a JSON error with this code and returns its message. */
export async function expectCode(response: Promise<RouteResponse> | RouteResponse, status: number, code: string): Promise<string> {
  const { error } = await expectJson<{ error: { type: string; code: string; message: string } }>(response, status);
  expect(error).toEqual({ type: code, code, message: expect.any(String) });
  return error.message;
}

export async function expectPlain(response: Promise<RouteResponse> | RouteResponse, status: number): Promise<void> {
  const { status: actualStatus, type, text } = await response;
  expect([actualStatus, type, text]).toEqual([status, 'text/plain', expect.stringMatching(/\S/)]);
}

export const saveItem = (gateway: TestGateway, body: unknown): Promise<ItemJson> => expectJson(send(gateway, 'POST', '/items', body), 201);
export const search = (gateway: TestGateway, body: unknown): Promise<SearchJson> => expectJson(send(gateway, 'POST', '/search', body), 200);

export const getTexts = ({ memories }: SearchJson): string[] => memories.map(({ item }) => item.text);

/** Makes the item appear as written by a person. */
export async function attributeToPerson({ database }: TestGateway, { id }: Pick<ItemJson, 'id'>): Promise<void> {
  await database.query(`update memory_items set origin = 'person', author = 'ada@example.org' where id = $1::uuid`, [id]);
}
