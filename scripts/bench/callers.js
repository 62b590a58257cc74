/**
 * Makes the benchmark's calls. This is a separate program that writes bytes to raw connections, so that a call only
 * takes a few microseconds here.
 *
 * Start it with `fork`, send it a {@link Work}, and it replies with a {@link Result}. If the message contains `open`,
 * it opens that many streams, replies with the number of open streams, and keeps them open until you send `{ close:
 * true }`. You can ask for the number again with `{ count: true }`.
 */
import { connect } from 'node:net';
import process from 'node:process';
import { createSession } from './agents.js';
import { createMessageReader, createNumbered, numberMark } from './http-messages.js';

/**
 * @typedef {object} Work
 * @property {number} port
 * @property {string} path
 * @property {string[]} headers
 * @property {string} body `##########` is replaced by the number of the call
 * @property {number} firstNumber
 * @property {number} connections
 * @property {number} calls total number of calls
 * @property {number} [perSecond] starts calls at this rate, each on a free connection. Without it, each connection
 * makes its next call as soon as the previous one ends
 * @property {import('./agents.js').Session} [session] each connection runs one agent session after another
 * @property {boolean} [grows] each connection has a conversation, i.e. answers and further questions are appended to
 * the body's messages
 * @property {boolean} [mayFail] counts responses with a status other than 200 instead of treating them as failures
 * @property {number} [open]
 */

/**
 * @typedef {object} Result all times are in milliseconds, with one entry per call
 * @property {number} calls number of calls that were answered with 200
 * @property {number} refused
 * @property {number} seconds
 * @property {Float64Array} durations
 * @property {Float64Array} firstBytes time until the first bytes of the body
 * @property {number} bodyBytes total size of all response bodies
 * @property {number} newBytes total size of the texts in sessions that no earlier request or response contained
 * @property {string | null} failure the first unexpected response or connection error
 */

const turnsOfConversation = 20;
const openAtOnce = 100;

/** @param {Work} work @returns {Promise<Result>} */
async function call(work) {
  /** @type {number[]} */
  const durations = [];
  /** @type {number[]} */
  const firstBytes = [];
  let [started, calls, refused, bodyBytes, newBytes] = [0, 0, 0, 0, 0];
  const addNew = (/** @type {number} */ bytes) => {
    newBytes += bytes;
  };
  /** @type {string | null} */
  let failure = null;
  const from = performance.now();
  const goesOn = () => failure === null && started < work.calls;
  /** @type {(() => void)[]} */
  const free = [];

  const run = () =>
    new Promise((resolve) => {
      const socket = connect({ host: '127.0.0.1', port: work.port, noDelay: true });
      const keepsAnswers = work.grows || work.session !== undefined;
      const nextRequest = work.session
        ? createAgent(work, work.session, addNew)
        : work.grows
          ? createConversation(work)
          : createRequests(work);
      let [startedAt, firstAt, status] = [0, 0, 0];
      let isRunning = false;
      /** @type {Buffer[]} */
      let kept = [];
      const end = () => {
        socket.destroy();
        resolve(null);
      };
      const start = () => {
        if (!goesOn()) return end();
        isRunning = true;
        started += 1;
        kept = [];
        [startedAt, firstAt] = [performance.now(), 0];
        socket.write(nextRequest(work.firstNumber + started));
      };
      const read = createMessageReader({
        head({ first }) {
          status = Number(first.slice(9, 12));
        },
        data(bytes) {
          bodyBytes += bytes.length;
          if (firstAt === 0) firstAt = performance.now();
          if (keepsAnswers || status !== 200) kept.push(bytes);
        },
        end() {
          isRunning = false;
          if (status === 200) {
            calls += 1;
            durations.push(performance.now() - startedAt);
            firstBytes.push(firstAt - startedAt);
            if (keepsAnswers) nextRequest(-1, Buffer.concat(kept).toString());
          } else if (work.mayFail) refused += 1;
          else failure ??= `status ${status}: ${Buffer.concat(kept).toString().slice(0, 500)}`;
          if (work.perSecond === undefined) start();
          else free.push(start);
        },
      });
      socket.on('data', read);
      socket.on('error', (error) => {
        failure ??= `connection error: ${error.message}`;
        end();
      });
      socket.on('close', () => {
        if (isRunning) failure ??= 'a connection was closed during a call';
        end();
      });
      if (work.perSecond === undefined) socket.once('connect', start);
      else {
        socket.once('connect', () => free.push(start));
        ends.push(end);
      }
    });

  /** @type {(() => void)[]} */
  const ends = [];
  const running = Array.from({ length: work.connections }, run);
  if (work.perSecond !== undefined) {
    const everyMs = 1_000 / work.perSecond;
    const timer = setInterval(() => {
      // If all connections are busy, skip this tick. A later tick will make the call.
      if (goesOn()) return free.shift()?.();
      clearInterval(timer);
      const rest = setInterval(() => {
        if (free.length < work.connections && failure === null) return;
        clearInterval(rest);
        for (const end of ends) end();
      }, 20);
    }, everyMs);
  }
  await Promise.all(running);
  return {
    calls,
    refused,
    seconds: (performance.now() - from) / 1_000,
    durations: Float64Array.from(durations),
    firstBytes: Float64Array.from(firstBytes),
    bodyBytes,
    newBytes,
    failure,
  };
}

/** @param {Work} work @param {string} body */
function requestText({ path, headers }, body) {
  const lines = [`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', ...headers, `content-length: ${Buffer.byteLength(body)}`];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}

/** @param {Work} work @returns {(number: number, answer?: string) => Buffer} */
function createRequests(work) {
  const request = createNumbered(requestText(work, work.body));
  return (number) => {
    request.setNumber(number);
    return request.bytes;
  };
}

/**
 * Generates a conversation that grows with each answer. After a few turns, a new one begins.
 * @param {Work} work
 * @returns {(number: number, answer?: string) => Buffer}
 */
function createConversation(work) {
  const { messages, ...rest } = JSON.parse(work.body);
  const question = JSON.stringify(messages[0]);
  let [said, turns] = ['', 0];
  return (number, answer) => {
    if (answer !== undefined) {
      said += `,${JSON.stringify({ role: 'assistant', content: JSON.parse(answer).choices[0].message.content })},`;
      turns += 1;
      if (turns === turnsOfConversation) [said, turns] = ['', 0];
      return Buffer.alloc(0);
    }
    said += question.replaceAll(numberMark, String(number).padStart(numberMark.length, '0'));
    return Buffer.from(requestText(work, `${JSON.stringify(rest).slice(0, -1)},"messages":[${said}]}`));
  };
}

/**
 * @param {Work} work
 * @param {import('./agents.js').Session} session
 * @param {(bytes: number) => void} addNew
 * @returns {(number: number, answer?: string) => Buffer}
 */
function createAgent(work, session, addNew) {
  const next = createSession(session, JSON.parse(work.body).model, addNew);
  return (number, answer) => {
    const body = next(number, answer);
    return body === null ? Buffer.alloc(0) : Buffer.from(requestText(work, body));
  };
}

/** @type {Set<import('node:net').Socket>} */
const openSockets = new Set();
let closedEarly = 0;

/**
 * Opens the streams a few at a time, and keeps all of them open.
 * @param {Work} work
 */
async function open(work) {
  let started = 0;
  const next = async () => {
    while (started < (work.open ?? 0)) {
      started += 1;
      await openOne(work, started);
    }
  };
  await Promise.all(Array.from({ length: openAtOnce }, next));
}

/** @param {Work} work @param {number} number */
function openOne(work, number) {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port: work.port, noDelay: true });
    const read = createMessageReader({ data: () => resolve(null), end: () => undefined });
    socket.once('connect', () => socket.write(createRequests(work)(work.firstNumber + number)));
    socket.on('data', read);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      if (openSockets.delete(socket)) closedEarly += 1;
      resolve(null);
    });
    openSockets.add(socket);
  });
}

process.on('message', async (/** @type {Work | { close: true } | { count: true }} */ message) => {
  if ('count' in message) process.send?.({ open: openSockets.size, closedEarly });
  else if ('close' in message) {
    for (const socket of openSockets) {
      openSockets.delete(socket);
      socket.destroy();
    }
    process.send?.({ open: 0, closedEarly });
  } else if (message.open !== undefined) {
    closedEarly = 0;
    await open(message);
    process.send?.({ open: openSockets.size, closedEarly });
  } else process.send?.(await call(message));
});
process.on('disconnect', () => process.exit());
