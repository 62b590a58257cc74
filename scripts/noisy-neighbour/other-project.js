/**
 * Makes the other project's calls. This separate program sends them at fixed times, and measures each call from the
 * moment when it was due.
 *
 * Start it with `fork`, send it a {@link Work}, and it replies with a {@link Result}.
 */
import { connect } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import process from 'node:process';
import { createMessageReader, createNumbered } from '../bench/http-messages.js';

/**
 * @typedef {object} Work
 * @property {number} port
 * @property {string} path
 * @property {string[]} headers
 * @property {string} body contains a placeholder for the number of the call
 * @property {number} firstNumber
 * @property {number} perSecond
 * @property {number} seconds
 */

/**
 * @typedef {object} Result
 * @property {Float64Array} durations in milliseconds, including how long unanswered calls have waited
 * @property {number} lateP99 how many milliseconds this program's own timer was late, because other programs used its processor
 * @property {number} failed number of calls that got no response or a status other than 200
 * @property {string | null} failure the reason of the first failure
 */

const tickMs = 2;
/** Calls have to wait once this many connections are busy. */
const maxConnections = 256;
const answerLimitMs = 15_000;

/** @param {Work} work @returns {Promise<Result>} */
async function call({ port, path, headers, body, firstNumber, perSecond, seconds }) {
  const lines = [`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', ...headers, `content-length: ${Buffer.byteLength(body)}`];
  const message = createNumbered(`${lines.join('\r\n')}\r\n\r\n${body}`);
  const count = Math.max(1, Math.round(perSecond * seconds));
  /** @type {number[]} */
  const durations = [];
  /**
   * When the calls that are waiting for a connection were due.
   * @type {number[]}
   */
  const waiting = [];
  /** @type {((dueAt: number) => void)[]} */
  const free = [];
  /** The due time of the current call on each socket. @type {Map<import('node:net').Socket, number>} */
  const running = new Map();
  let [started, connections, failed] = [0, 0, 0];
  /** @type {string | null} */
  let failure = null;
  /** @param {string} reason */
  const fail = (reason) => {
    failed += 1;
    failure ??= reason;
  };

  const open = () => {
    connections += 1;
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    let status = '';
    const next = () => {
      const dueAt = waiting.shift();
      if (dueAt === undefined) free.push(send);
      else send(dueAt);
    };
    /** @param {number} dueAt */
    const send = (dueAt) => {
      running.set(socket, dueAt);
      started += 1;
      message.setNumber(firstNumber + started);
      // The socket may not send these bytes right away, and the next call changes the number in the same buffer. So we
      // have to copy them.
      socket.write(Buffer.from(message.bytes));
    };
    const read = createMessageReader({
      head({ first }) {
        status = first.slice(9, 12);
      },
      end() {
        durations.push(performance.now() - (running.get(socket) ?? 0));
        running.delete(socket);
        if (status !== '200') fail(`status ${status}`);
        next();
      },
    });
    socket.once('connect', next);
    socket.on('data', read);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      connections -= 1;
      const dueAt = running.get(socket);
      if (dueAt !== undefined) {
        durations.push(performance.now() - dueAt);
        fail('a connection ended during a call');
      }
      running.delete(socket);
      const at = free.indexOf(send);
      if (at >= 0) free.splice(at, 1);
    });
    return socket;
  };

  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const from = performance.now();
  let due = 0;
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set();
  await new Promise((resolve) => {
    const timer = setInterval(() => {
      const now = performance.now();
      for (; due < count && from + (due / perSecond) * 1_000 <= now; due += 1) {
        const dueAt = from + (due / perSecond) * 1_000;
        const send = free.pop();
        if (send) send(dueAt);
        else {
          waiting.push(dueAt);
          if (connections < maxConnections) sockets.add(open());
        }
      }
      const isDone = durations.length >= count;
      if (!isDone && now < from + seconds * 1_000 + answerLimitMs) return;
      clearInterval(timer);
      resolve(null);
    }, tickMs);
  });
  delay.disable();
  for (const dueAt of [...running.values(), ...waiting]) {
    durations.push(performance.now() - dueAt);
    fail('no response in time');
  }
  running.clear();
  for (const socket of sockets) socket.destroy();
  return { durations: Float64Array.from(durations).sort(), lateP99: delay.percentile(99) / 1e6, failed, failure };
}

process.on('message', async (/** @type {Work} */ work) => process.send?.(await call(work)));
process.on('disconnect', () => process.exit());
