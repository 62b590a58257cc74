/**
 * Defines the mixed load of the soak test, i.e. many kinds of calls. For each of them, we know which status it should
 * get.
 */
import { request } from 'undici';

/**
 * @typedef {object} Kind
 * @property {string} path
 * @property {object | string} body strings are sent unchanged
 * @property {number} status
 * @property {boolean} [leaves] the caller disconnects when the response starts
 * @property {boolean} [stranger] uses an unknown key
 */

const user = { role: 'user', content: 'Tell me something about the weather on a long, slow day.' };
const tools = [
  { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } },
];
const chat = '/v1/chat/completions';
const messages = '/v1/messages';

/** @type {Readonly<Record<string, Kind>>} */
export const kinds = {
  plain: { path: chat, body: { model: 'standard', messages: [user] }, status: 200 },
  stream: { path: chat, body: { model: 'chat/echo+long-30', stream: true, messages: [user] }, status: 200 },
  messages: { path: messages, body: { model: 'messages/echo', max_tokens: 100, messages: [user] }, status: 200 },
  messagesStream: {
    path: messages,
    body: { model: 'messages/echo+long-30', max_tokens: 100, stream: true, messages: [user] },
    status: 200,
  },
  translated: { path: messages, body: { model: 'chat/echo+long-10', max_tokens: 100, stream: true, messages: [user] }, status: 200 },
  tool: { path: chat, body: { model: 'chat/tool', tools, messages: [user] }, status: 200 },
  toolStream: { path: chat, body: { model: 'messages/tools-parallel', stream: true, tools, messages: [user] }, status: 200 },
  aborted: { path: chat, body: { model: 'chat/echo+pace-20+long-50', stream: true, messages: [user] }, status: 200, leaves: true },
  broken: { path: chat, body: { model: 'chat/echo+long-30+break-after-5', stream: true, messages: [user] }, status: 200 },
  failover: { path: chat, body: { model: 'shaky', messages: [user] }, status: 200 },
  failed: { path: chat, body: { model: 'chat/fail-500', messages: [user] }, status: 502 },
  refused: { path: chat, body: { model: 'chat/refuse-400', messages: [user] }, status: 400 },
  noRoute: { path: chat, body: { model: 'nobody/knows', messages: [user] }, status: 400 },
  badJson: { path: chat, body: '{"model": "standard", ', status: 400 },
  stranger: { path: chat, body: { model: 'standard', messages: [user] }, status: 401, stranger: true },
  embeddings: { path: '/v1/embeddings', body: { model: 'embed', input: ['one text', 'another'] }, status: 200 },
};

/** @param {string} vendorUrl */
export function soakConfig(vendorUrl) {
  return `
providers:
  chat: { base_url: ${vendorUrl}/v1, api_key: any, dialect: chat }
  messages: { base_url: ${vendorUrl}/v1, api_key: any, dialect: messages }
models:
  chat/echo: { input: 1, output: 2 }
  messages/echo: { input: 1, output: 2 }
tiers:
  standard: [chat/echo, messages/echo]
  shaky: [chat/fail-503, messages/echo]
  embed: [chat/embedder]
`;
}

/**
 * Makes a call and reads the response. If the call succeeds, returns its id. Throws if the response isn't the expected
 * one.
 * @param {{ url: string, key: string, name: string, kind: Kind, fresh: boolean, dispatcher: import('undici').Dispatcher }} call
 * set `fresh` to bypass the cache
 */
export async function makeCall({ url, key, name, kind, fresh, dispatcher }) {
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'x-gateway-source': `app-${name.length % 3}`,
    ...(fresh && { 'cache-control': 'no-cache' }),
  };
  const body = typeof kind.body === 'string' ? kind.body : JSON.stringify(kind.body);
  const response = await request(url + kind.path, { method: 'POST', headers, body, dispatcher });
  if (response.statusCode !== kind.status)
    throw new Error(`${name}: status ${response.statusCode}, not ${kind.status}: ${(await response.body.text()).slice(0, 500)}`);
  const id = response.statusCode === 200 ? String(response.headers['x-gateway-call-id']) : null;
  if (kind.leaves) {
    response.body.on('error', () => undefined).destroy();
    return id;
  }
  // The stream of a `broken` call is supposed to break, so ignore the error.
  if (name === 'broken') await response.body.text().catch(() => '');
  else await response.body.dump({ limit: 16 * 1024 * 1024 });
  return id;
}
