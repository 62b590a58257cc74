/** Generates random malformed HTTP like that of scanners, broken clients and attackers, as bytes. */
import fc from 'fast-check';

/** The bytes for one connection, the number of writes, and how the client ends the connection. */
export interface RawRequest {
  readonly bytes: Buffer;
  readonly cuts: readonly number[];
  /**
   * `end` closes the sending side and waits, `wait` waits for a response, and `reset` closes once everything is
   * written.
   */
  readonly leaves: 'end' | 'wait' | 'reset';
}

const crlf = fc.oneof(
  { weight: 20, arbitrary: fc.constant('\r\n') },
  fc.constantFrom('\n', '\r', '\r\r\n', '\n\r', '', ' \r\n', '\u0000\r\n'),
);
const token = fc.stringMatching(/^[A-Za-z0-9-]{1,12}$/);
const noise = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)), maxLength: 60 });

const method = fc.oneof(
  { weight: 10, arbitrary: fc.constantFrom('POST', 'GET') },
  fc.constantFrom('PUT', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE', 'CONNECT', 'PATCH', 'PRI', 'post', 'PO ST', '', 'M-SEARCH', 'QUERY'),
  token,
  noise,
);
const target = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.constantFrom(
      '/v1/chat/completions',
      '/v1/messages',
      '/v1/embeddings',
      '/v1/responses',
      '/usage/me',
      '/provision/teams/acme',
    ),
  },
  fc.constantFrom(
    '*',
    '/',
    '//',
    '/%',
    '/%00',
    '/%2e%2e/%2e%2e/etc/passwd',
    '/v1/memory/episodes/%E0%A4%A',
    'http://elsewhere.example/',
    'elsewhere:443',
    '',
    '?',
    '#',
    '/v1/messages?a=b#c',
  ),
  fc.integer({ min: 1, max: 20_000 }).map((length) => `/${'a'.repeat(length)}`),
  noise.map((text) => `/${text}`),
);
const version = fc.oneof(
  { weight: 15, arbitrary: fc.constant('HTTP/1.1') },
  fc.constantFrom('HTTP/1.0', 'HTTP/2.0', 'HTTP/0.9', 'HTTP/9.9', 'http/1.1', 'HTTP/1.1 ', 'HTTP/', 'RTSP/1.0', ''),
);

function headerLine(key: string): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 6, arbitrary: fc.constant(`authorization: Bearer ${key}`) },
    { weight: 4, arbitrary: fc.constant('content-type: application/json') },
    fc.constantFrom(
      'content-length: -1',
      'content-length: 5, 5',
      'content-length: 1e3',
      'content-length: 99999999999999999999',
      'content-length:',
      'content-length: 3\r\ncontent-length: 4',
      'content-length : 4',
      'transfer-encoding: chunked',
      'transfer-encoding: chunked\r\ncontent-length: 4',
      'transfer-encoding: gzip, chunked',
      'transfer-encoding: identity',
      'transfer-encoding: chunked, chunked',
      'transfer-encoding: xchunked',
      'expect: 100-continue',
      'expect: the-unexpected',
      'upgrade: websocket\r\nconnection: upgrade',
      'upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABkAAQAAP__',
      'connection: close',
      'connection: keep-alive, close, te',
      'te: trailers',
      'trailer: x-late',
      'content-encoding: gzip',
      'host: a\r\nhost: b',
      'x-api-key: nothing',
      'x-gateway-memory: \u0000',
      'x-gateway-memory-subject: \u00c3\u0028',
      'x-gateway-timeout-ms: -0',
      'x-gateway-task-id: a\r\nx-injected: b',
      'x-gateway-task-id: a\nx-injected: b',
      ' folded: line',
      '\tfolded',
      ': no name',
      'no colon',
      'na me: v',
      '__proto__: v',
      'constructor: v',
      'cookie: a=b; __Host-x=y',
      'range: bytes=0-0',
      'if-none-match: *',
    ),
    fc.tuple(token, noise).map(([name, value]) => `${name}: ${value}`),
    noise,
  );
}

function headerBlock(key: string): fc.Arbitrary<string[]> {
  return fc.oneof(
    { weight: 30, arbitrary: fc.array(headerLine(key), { maxLength: 8 }) },
    fc.integer({ min: 100, max: 3_000 }).map((count) => Array.from({ length: count }, (_, index) => `x-${index}: y`)),
    fc.integer({ min: 1_000, max: 40_000 }).map((length) => [`x-long: ${'a'.repeat(length)}`]),
  );
}

const json = fc.oneof(
  fc.constantFrom(
    '{"model":"one/echo","messages":[]}',
    '{"model":"one/echo","max_tokens":1,"messages":[]}',
    '{"model":"one/echo","input":"a"}',
    '{',
    '',
    '[[[[',
    '{"a":1}}',
  ),
  fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
  noise,
);
const body = fc.oneof(
  { weight: 4, arbitrary: json },
  // Chunks with wrong, huge or invalid sizes, and with extensions and trailers.
  fc
    .array(
      fc.tuple(fc.oneof(fc.constantFrom('0', '5', 'ffffffffffffffff', '-1', '5;ext=1', '0x5', '', ' 5', 'g'), token), crlf, json, crlf),
      { maxLength: 4 },
    )
    .map((chunks) => chunks.map((chunk) => chunk.join('')).join('')),
);

/** The length of the request is right in four of five cases, so that some reach the handlers. */
function request(key: string): fc.Arbitrary<string> {
  return fc
    .record({
      method,
      target,
      version,
      lines: headerBlock(key),
      ends: fc.array(crlf, { minLength: 1, maxLength: 6 }),
      body,
      off: fc.constantFrom(0, 0, 0, 0, 1, -1, 1_000),
      isGood: fc.boolean(),
    })
    .map(({ method: verb, target: where, version: spoken, lines, ends, body: text, off, isGood }) => {
      const end = (at: number): string => (isGood ? '\r\n' : (ends[at % ends.length] ?? '\r\n'));
      const length = Math.max(0, Buffer.byteLength(text, 'latin1') + off);
      const first = isGood
        ? [
            `POST ${where} HTTP/1.1`,
            'host: a',
            `authorization: Bearer ${key}`,
            'content-type: application/json',
            `content-length: ${length}`,
          ]
        : [`${verb} ${where} ${spoken}`, 'host: a'];
      return `${[...first, ...lines].map((line, at) => line + end(at)).join('')}\r\n${text}`;
    });
}

/** A valid request. Some of them reach a vendor, and callers disconnect during their responses. */
function goodRequest(key: string): fc.Arbitrary<string> {
  const asked = fc.constantFrom(
    ['/v1/chat/completions', '{"model":"one/echo","messages":[{"role":"user","content":"a"}]}'],
    ['/v1/chat/completions', '{"model":"one/long-500","stream":true,"messages":[{"role":"user","content":"a"}]}'],
    ['/v1/chat/completions', '{"model":"one/slow-20","messages":[{"role":"user","content":"a"}]}'],
    ['/v1/messages', '{"model":"three/long-500","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"a"}]}'],
    ['/v1/embeddings', '{"model":"one/echo","input":"a"}'],
    ['/v1/responses', '{"model":"one/long-500","stream":true,"input":"a"}'],
  );
  return fc
    .tuple(asked, fc.boolean())
    .map(([[where = '', text = ''], isChunked]) =>
      [
        `POST ${where} HTTP/1.1`,
        'host: a',
        `authorization: Bearer ${key}`,
        'content-type: application/json',
        isChunked ? 'transfer-encoding: chunked' : `content-length: ${text.length}`,
        '',
        isChunked ? `5\r\n${text.slice(0, 5)}\r\n${(text.length - 5).toString(16)}\r\n${text.slice(5)}\r\n0\r\n\r\n` : text,
      ].join('\r\n'),
    );
}

const clientHello = Buffer.concat([
  Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]),
  Buffer.alloc(200, 7),
]).toString('latin1');

/** `key` is valid, so that some requests reach the handlers. */
export function rawRequests(key: string): fc.Arbitrary<RawRequest> {
  const text = fc.oneof(
    { weight: 12, arbitrary: request(key) },
    { weight: 3, arbitrary: goodRequest(key) },
    // Valid requests before and after broken ones, which must not absorb the bytes in between.
    { weight: 2, arbitrary: fc.tuple(goodRequest(key), request(key), goodRequest(key)).map((all) => all.join('')) },
    // Pipelines valid and broken requests in sequence.
    { weight: 3, arbitrary: fc.array(request(key), { minLength: 2, maxLength: 12 }).map((all) => all.join('')) },
    // Truncated anywhere.
    {
      weight: 4,
      arbitrary: fc
        .tuple(request(key), fc.double({ min: 0, max: 1, noNaN: true }))
        .map(([whole, part]) => whole.slice(0, Math.floor(whole.length * part))),
    },
    { weight: 3, arbitrary: fc.uint8Array({ minLength: 1, maxLength: 2_000 }).map((bytes) => Buffer.from(bytes).toString('latin1')) },
    fc.constantFrom(
      '',
      '\r\n\r\n',
      clientHello,
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      'GET /\r\n\r\n',
      '\u0005\u0001\u0000',
      'EHLO mail\r\n',
    ),
  );
  return fc
    .record({
      text,
      cuts: fc.array(fc.nat(4_000), { maxLength: 3 }),
      leaves: fc.constantFrom('end' as const, 'wait' as const, 'reset' as const),
    })
    .map(({ text: all, cuts, leaves }) => ({ bytes: Buffer.from(all, 'latin1'), cuts: cuts.sort((a, b) => a - b), leaves }));
}
