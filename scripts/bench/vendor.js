/**
 * The vendor of the benchmark. It must be cheaper than the gateway, because we'd be measuring the vendor otherwise. So
 * it prepares all responses at startup and only looks at the first segment of the path.
 *
 * It's a separate program that has to be started with `fork`. The argument is the port, or 0 for any free port. It
 * first sends `{ port }`, and from then on it answers every message with `{ requests }`, the number of requests so far.
 */
import { createServer } from 'node:net';
import process from 'node:process';
import { createMessageReader, createNumbered, numberMark } from './http-messages.js';
import { answerText, chunkCount, openChunkMs, pacedChunkMs } from './texts.js';

/** @typedef {(socket: import('node:net').Socket, isRefused: boolean) => void} Answer */

const usualHeaders = [
  'date: Mon, 02 Nov 2026 10:00:00 GMT',
  'x-request-id: req_0123456789abcdef0123456789abcdef',
  'openai-version: 2020-10-01',
  'openai-processing-ms: 312',
];
let requests = 0;

/**
 * @param {number} status
 * @param {string} body
 */
function plain(status, body) {
  const head = [`HTTP/1.1 ${status} ${status === 200 ? 'OK' : 'Error'}`, ...usualHeaders, 'content-type: application/json'];
  return `${head.join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** @param {string} text sent for every request, with only the number changed */
function numbered(text) {
  const message = createNumbered(text);
  /** @type {Answer} */
  return (socket) => {
    message.setNumber(requests);
    socket.write(Buffer.from(message.bytes));
  };
}

/** @param {string} id @param {object} [more] additional members of the message */
function chatBody(id, more = {}) {
  return JSON.stringify({
    id: `chatcmpl-${id}`,
    object: 'chat.completion',
    created: 1_790_000_000,
    model: 'm',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: answerText, refusal: null, annotations: [], ...more },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: { prompt_tokens: 220, completion_tokens: 130, total_tokens: 350, prompt_tokens_details: { cached_tokens: 0 } },
    service_tier: 'default',
    system_fingerprint: 'fp_0123456789',
  });
}

/** A typical tool call of a coding agent. */
const toolInput = { path: `src/file-${numberMark}.ts`, offset: 1, limit: 200 };
const toolCall = {
  id: `call_${numberMark}`,
  type: 'function',
  function: { name: 'read_file', arguments: JSON.stringify(toolInput) },
};
const toolUse = { type: 'tool_use', id: `toolu_${numberMark}`, name: 'read_file', input: toolInput };

/** @param {object[]} [more] additional blocks */
function messagesBody(more = []) {
  return JSON.stringify({
    id: `msg_${numberMark}`,
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: answerText }, ...more],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 220, output_tokens: 130, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
  });
}

function embeddingsBody() {
  const vector = (/** @type {number} */ seed) =>
    Array.from({ length: 1_536 }, (_, index) => Number((Math.sin(seed * 1_536 + index) / 40).toFixed(9)));
  const data = Array.from({ length: 100 }, (_, index) => ({ object: 'embedding', index, embedding: vector(index) }));
  return JSON.stringify({ object: 'list', data, model: 'm', usage: { prompt_tokens: 800, total_tokens: 800 } });
}

const streamHead = ['HTTP/1.1 200 OK', ...usualHeaders, 'content-type: text/event-stream', 'transfer-encoding: chunked', '\r\n'].join(
  '\r\n',
);

/** Returns the events of a stream, each encoded as one HTTP chunk. */
function streamEvents() {
  const event = (/** @type {object} */ delta, /** @type {object} */ more = {}) =>
    `data: ${JSON.stringify({
      id: 'chatcmpl-0123456789',
      object: 'chat.completion.chunk',
      created: 1_790_000_000,
      model: 'm',
      system_fingerprint: 'fp_0123456789',
      choices: [{ index: 0, delta, logprobs: null, finish_reason: null }],
      ...more,
    })}\n\n`;
  const usage = { prompt_tokens: 220, completion_tokens: 50, total_tokens: 270 };
  const deltas = Array.from({ length: chunkCount - 2 }, (_, index) => event({ content: ` term ${index}` }));
  const events = [...deltas, event({}, { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage }), 'data: [DONE]\n\n'];
  return events.map((text) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
}

const lastChunk = '0\r\n\r\n';
const events = streamEvents();
const wholeStream = Buffer.from(streamHead + events.join('') + lastChunk);
const eventBytes = events.map((event) => Buffer.from(event));
const success = numbered(plain(200, chatBody(numberMark)));
const refusal = Buffer.from(
  plain(500, JSON.stringify({ error: { message: 'The server had an error.', type: 'server_error', code: null } })),
);
const embeddings = Buffer.from(plain(200, embeddingsBody()));
/**
 * Streams that never end. Each of them gets an event every `openChunkMs`. We don't write to all of them at once, but
 * divide them into groups that take turns.
 * @type {Set<import('node:net').Socket>[]}
 */
const openStreams = Array.from({ length: openChunkMs / 100 }, () => new Set());
let turn = 0;
setInterval(() => {
  turn = (turn + 1) % openStreams.length;
  for (const socket of openStreams[turn] ?? []) socket.write(eventBytes[1] ?? '');
}, 100).unref();

/** @type {Readonly<Record<string, Answer>>} */
const answers = {
  plain: success,
  failing: (socket, isRefused) => (isRefused ? void socket.write(refusal) : success(socket, false)),
  hanging: () => undefined,
  messages: numbered(plain(200, messagesBody())),
  agent: numbered(plain(200, chatBody(numberMark, { tool_calls: [toolCall] }))),
  'agent-messages': numbered(plain(200, messagesBody([toolUse]))),
  embeddings: (socket) => void socket.write(embeddings),
  stream: (socket) => void socket.write(wholeStream),
  paced(socket) {
    let next = 0;
    socket.write(streamHead);
    const timer = setInterval(() => {
      if (socket.destroyed) return clearInterval(timer);
      socket.write(eventBytes[next] ?? '');
      next += 1;
      if (next < eventBytes.length) return;
      clearInterval(timer);
      socket.write(lastChunk);
    }, pacedChunkMs);
  },
  open(socket) {
    socket.write(streamHead);
    socket.write(eventBytes[0] ?? '');
    const part = openStreams[requests % openStreams.length];
    part?.add(socket);
    socket.once('close', () => part?.delete(socket));
  },
};

const refusedModel = Buffer.from('"model":"refused"');
const server = createServer({ noDelay: true }, (socket) => {
  /** @type {Answer | undefined} */
  let answer;
  let isRefused = false;
  const read = createMessageReader({
    head({ first }) {
      const name = first.slice(first.indexOf('/') + 1);
      answer = answers[name.slice(0, name.indexOf('/'))];
      isRefused = false;
    },
    data(bytes) {
      if (answer === answers['failing']) isRefused ||= bytes.includes(refusedModel);
    },
    end() {
      requests += 1;
      if (answer) answer(socket, isRefused);
      else socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n');
    },
  });
  socket.on('data', read);
  socket.on('error', () => socket.destroy());
});
server.listen({ host: '127.0.0.1', port: Number(process.argv[2] ?? 0), backlog: 4_096 }, () => {
  const address = server.address();
  process.send?.({ port: typeof address === 'object' ? address?.port : 0 });
});
process.on('message', () => process.send?.({ requests }));
process.on('disconnect', () => process.exit());
