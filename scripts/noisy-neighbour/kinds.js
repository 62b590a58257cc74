/**
 * Defines how the noisy neighbour abuses the gateway. In each kind of abuse, all of its connections send one request
 * over and over.
 */
import { createHash } from 'node:crypto';

/**
 * @typedef {object} Context
 * @property {string} key the neighbour's key
 * @property {string} cappedKey a key of the neighbour with a ceiling of zero calls
 * @property {string} adminToken
 * @property {number} number a different number for each request
 */

/**
 * @typedef {object} Kind
 * @property {string} title
 * @property {number} connections
 * @property {(context: Context) => string | readonly Buffer[]} request returns the bytes of a request. Only `trickles`
 *   needs a string
 * @property {'trickles' | 'stays open' | 'address each'} [way] `trickles` sends the body byte by byte, `stays open`
 *   never gets a complete response, and `address each` connects from a new address for each request
 * @property {'ruled'} [other] set if the other project has ordinary content rules
 */

/**
 * @param {string} method
 * @param {string} path
 * @param {string} token
 * @param {string} body
 * @param {string} [type]
 */
function toRequest(method, path, token, body, type = 'application/json') {
  const lines = [`${method} ${path} HTTP/1.1`, 'host: 127.0.0.1', `authorization: Bearer ${token}`, `content-type: ${type}`];
  return `${lines.join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** @param {string} token @param {string} model @param {string} text @param {object} [more] */
function chat(token, model, text, more = {}) {
  return toRequest('POST', '/v1/chat/completions', token, JSON.stringify({ model, ...more, messages: [{ role: 'user', content: text }] }));
}

/**
 * These rules are as expensive as we permit. With a text that only contains `a` and `b`, each automaton needs a new
 * state for every character, and that takes 10 µs.
 */
export const expensiveRules = Array.from({ length: 10 }, (_, index) => ({
  class: 'expression',
  place: 'input',
  action: 'block',
  expression: `[ab]*a[ab]{${200 + index}}[^ab]`,
}));
/** With these rules, even ordinary prompts are checked in the rule thread and not on the event loop. */
export const ordinaryRules = ['night', 'day', 'morning'].map((time) => ({
  class: 'expression',
  place: 'input',
  action: 'block',
  expression: `(?i)(?:project|operation|code ?name)\\s+${time}[a-z]{1,30}`,
}));

/**
 * Returns random letters, so that the automata can't reuse any of the states that they've cached.
 * @param {number} length
 */
function randomLetters(length) {
  return Array.from({ length }, () => (Math.random() < 0.5 ? 'a' : 'b')).join('');
}

/**
 * The CSRF token of a form is derived from a cookie and then masked. The client can choose the cookie and the mask, so
 * we can make one up.
 */
const formSecret = 'secret-of-a-form';
const token = createHash('sha256').update(`csrf ${formSecret}`).digest();
const csrf = Buffer.concat([Buffer.alloc(token.length), token]).toString('base64url');

const largeText = 'a long prompt of an ordinary document; '.repeat(750_000);
const largeBytes = Buffer.from(largeText);
const mebibyteText = largeText.slice(0, 1_048_576);

/** @type {Readonly<Record<string, Kind>>} */
export const kinds = {
  'large-bodies': {
    title: 'prompts of 29 MB',
    connections: 4,
    request({ key, number }) {
      // All requests share the same 29 MB, because building them anew would take more CPU time than sending them.
      const [head = '', body = ''] = chat(key, 'plain/m', `${String(number).padStart(10)} `).split('\r\n\r\n');
      const at = body.lastIndexOf('"}');
      const length = `content-length: ${body.length + largeBytes.length}`;
      return [
        Buffer.from(`${head.replace(/content-length: \d+/, length)}\r\n\r\n${body.slice(0, at)}`),
        largeBytes,
        Buffer.from(body.slice(at)),
      ];
    },
  },
  'slow-bodies': {
    title: 'bodies of 1 MB that arrive byte by byte',
    connections: 1_000,
    way: 'trickles',
    request: ({ key, number }) => chat(key, 'plain/m', `${number} ${mebibyteText}`),
  },
  streams: {
    title: 'open streams',
    connections: 2_000,
    way: 'stays open',
    request: ({ key, number }) => chat(key, 'open/m', `${number}`, { stream: true }),
  },
  flood: {
    title: 'ordinary calls, 1,000 at once',
    connections: 1_000,
    request: ({ key, number }) => chat(key, 'plain/m', `${number}`),
  },
  'memory-writes': {
    title: 'memories saved',
    connections: 16,
    request: ({ key, number }) =>
      toRequest('POST', '/v1/memory/items', key, JSON.stringify({ text: `Fact ${number}: the report of plan ${number % 977} is ready.` })),
  },
  searches: {
    title: 'memory searched',
    connections: 16,
    request: ({ key, number }) =>
      toRequest('POST', '/v1/memory/search', key, JSON.stringify({ query: `the report or the answer of plan ${number % 977} or fact` })),
  },
  exports: {
    title: 'memory exported',
    connections: 4,
    request: ({ adminToken }) => toRequest('GET', '/provision/teams/memory/memory/export', adminToken, ''),
  },
  'failing-vendor': {
    title: 'a vendor that fails',
    connections: 16,
    request: ({ key, number }) => chat(key, 'failing/refused', `${number}`),
  },
  'hanging-vendor': {
    title: 'a vendor that never answers',
    connections: 1_000,
    way: 'stays open',
    request: ({ key, number }) => chat(key, 'hanging/m', `${number}`),
  },
  'sign-ins': {
    title: 'sign-in attempts from many addresses',
    connections: 16,
    way: 'address each',
    request({ number }) {
      const body = `csrf=${csrf}&email=person-${number}%40example.com&password=guess-${number}`;
      return toRequest('POST', '/console/sign-in', 'none', body, `application/x-www-form-urlencoded\r\ncookie: gateway_form=${formSecret}`);
    },
  },
  // Run this kind last, because it leaves the most unfinished work behind.
  rules: {
    title: 'expensive content rules and a key without calls',
    connections: 30,
    other: 'ruled',
    request: ({ cappedKey, number }) => chat(cappedKey, 'plain/m', `${number} ${randomLetters(60_000)}`),
  },
};
