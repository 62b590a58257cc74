/** The six inference routes, for tests of the API contract, and functions that check their responses. */
import { once } from 'node:events';
import { request as createRequest, type IncomingMessage } from 'node:http';
import { expect } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { jsonOf } from '../support/gateway.ts';

export interface InferenceRoute {
  readonly name: 'chat' | 'messages' | 'embeddings' | 'moderations' | 'rerank' | 'responses';
  readonly path: string;
  /** Providers in `defaultYaml` that serve the route, and one that nothing listens on. */
  readonly first: string;
  readonly second: string;
  readonly dead: string;
  /** The members of a valid body besides its model. */
  readonly body: Readonly<Record<string, unknown>>;
  /** True if memory records calls of this route. */
  readonly records: boolean;
  readonly streams: boolean;
}

const chatProviders = { first: 'one', second: 'two', dead: 'dead' };
const dialogue = { messages: [{ role: 'user', content: 'hi' }] };

export const routes: readonly InferenceRoute[] = [
  { name: 'chat', path: '/v1/chat/completions', ...chatProviders, body: dialogue, records: true, streams: true },
  {
    name: 'messages',
    path: '/v1/messages',
    first: 'three',
    second: 'four',
    dead: 'dead-messages',
    body: { ...dialogue, max_tokens: 50 },
    records: true,
    streams: true,
  },
  { name: 'embeddings', path: '/v1/embeddings', ...chatProviders, body: { input: 'hi' }, records: false, streams: false },
  { name: 'moderations', path: '/v1/moderations', ...chatProviders, body: { input: 'hi' }, records: false, streams: false },
  { name: 'rerank', path: '/v1/rerank', ...chatProviders, body: { query: 'hi', documents: ['hi', 'ho'] }, records: false, streams: false },
  { name: 'responses', path: '/v1/responses', ...chatProviders, body: { input: 'hi' }, records: true, streams: true },
];

export const dialectRoutes = routes.filter(({ name }) => name === 'chat' || name === 'messages');
export const passthroughRoutes = routes.filter(({ name }) => name !== 'chat' && name !== 'messages');
export const recordingRoutes = routes.filter(({ records }) => records);
export const streamingRoutes = routes.filter(({ streams }) => streams);

/** Returns a route by its name in the API reference. */
export function routeOf(name: InferenceRoute['name']): InferenceRoute {
  const found = routes.find((route) => route.name === name);
  if (!found) throw new Error(`no route ${name}`);
  return found;
}

/** Calls a route with a model. `first/…` and `second/…` stand for the route's providers. */
export function ask(
  gateway: TestGateway,
  route: InferenceRoute,
  model: unknown,
  { headers = {}, more = {} }: { headers?: Record<string, string>; more?: Readonly<Record<string, unknown>> } = {},
): Promise<Response> {
  return gateway.call(route.path, { ...route.body, model: typeof model === 'string' ? nameOf(route, model) : model, ...more }, headers);
}

/** Replaces `first` in `first/echo` by the route's provider. */
export function nameOf(route: InferenceRoute, model: string): string {
  const [provider = '', ...rest] = model.split('/');
  return provider === 'first' || provider === 'second' || provider === 'dead' ? [route[provider], ...rest].join('/') : model;
}

/** Error types of messages routes by status. */
const messagesTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'permission_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  415: 'invalid_request_error',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

/**
 * Checks a gateway error in the format of the route: with the code in chat style, or with the type for the status in
 * messages style.
 */
export async function expectRouteError(
  answer: Response,
  { name }: { readonly name: string },
  { status, code, message = /./ }: { status: number | readonly number[]; code: string; message?: string | RegExp },
): Promise<void> {
  const text = typeof message === 'string' ? message : expect.stringMatching(message);
  const body = await jsonOf<{ error: Record<string, unknown> }>(answer);
  const further = Object.entries(body.error).filter(([key]) => isFurtherMember(code, key));
  const error = { message: text, ...Object.fromEntries(further) };
  expect([answer.status, body]).toEqual([
    answer.status,
    name === 'messages'
      ? { type: 'error', error: { ...error, type: messagesTypes[answer.status] ?? 'api_error' } }
      : { error: { ...error, type: code, code } },
  ]);
  expect([status].flat()).toContain(answer.status);
  expect(answer.headers.get('content-type')).toBe('application/json');
  expect(answer.headers.get('cache-control')).toBe('no-store');
  expect(answer.headers.get('x-gateway-call-id')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
}

/** The members that an error of this code may have besides message, type and code. */
function isFurtherMember(code: string, key: string): boolean {
  if (code === 'no_route') return key === 'hint';
  const isVendorError = code === 'upstream_refused' || code === 'upstream_error';
  return isVendorError && ['param', 'upstream_code', 'upstream_type', 'hint', 'details'].includes(key);
}

/** Checks an error of another route, which has the chat style. */
export async function expectChatError(answer: Response, status: number, code: string, message: string | RegExp = /./): Promise<void> {
  const text = typeof message === 'string' ? message : expect.stringMatching(message);
  expect([answer.status, await jsonOf(answer)]).toEqual([status, { error: { message: text, type: code, code } }]);
  expect(answer.headers.get('content-type')).toBe('application/json');
  expect(answer.headers.get('cache-control')).toBe('no-store');
}

export async function expectPlainText(answer: Response, status: number): Promise<void> {
  expect([answer.status, answer.headers.get('content-type')]).toEqual([status, expect.stringMatching(/^text\/plain/)]);
  expect(await answer.text()).not.toMatch(/^\s*[{[]/);
}

/** Sends the headers of a JSON request whose body is larger than 32 MiB, but not the body. Returns the response. */
export async function declareLargeBody(url: string, key: string, method = 'POST'): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'content-length': `${33 * 1024 * 1024}` };
  const request = createRequest(url, { method, headers });
  request.flushHeaders();
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const text = Buffer.concat(await response.toArray());
  request.destroy();
  return new Response(text, { status: response.statusCode ?? 0, headers: { 'content-type': response.headers['content-type'] ?? '' } });
}

/** Runs work with the shared gateway and a separate project. */
export function projectLender(lent: () => TestGateway, name: string): () => Promise<TestGateway> {
  let count = 0;
  return () => {
    count += 1;
    return lent().withProject(`${name}-${count}`);
  };
}
