/**
 * Makes the calls of the other project. This is a separate program that sends them at fixed times. We measure how long
 * a call takes from the moment when it was due.
 *
 * SDKs keep their connections open, so this program does too, even from one measurement to the next. In addition, a few
 * calls open a new connection. They're measured separately.
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
 * @property {Float64Array} newDurations the same for the calls that opened a connection
 * @property {number} lateP99 how many milliseconds this program's own timer was late, because other programs used its processor
 * @property {number} failed number of calls that got no response or a status other than 200
 * @property {number[][]} calls for each call, when it was due (on the monotonic clock) and its duration
 * @property {number[][]} newCalls
 * @property {string | null} failure the reason of the first failure
 */

/**
 * A call that hasn't ended yet. `end` is called once, with the reason if the call failed, and otherwise with null.
 * @typedef {object} Call
 * @property {Buffer} bytes
 * @property {(failure: string | null) => void} end
 */

const tickMs = 2;
/** The maximum number of connections. If all of them are busy, calls have to wait. */
const maxConnections = 256;
const newPerSecond = 20;
const answerLimitMs = 15_000;

/** The connections that aren't busy. @type {((call: Call) => void)[]} */
const free = [];
/** @type {Call[]} */
const waiting = [];
let connections = 0;

/**
 * Opens a connection and returns a function that sends a call over it.
 * @param {number} port
 * @param {(send: (call: Call) => void) => void} onReady called when the connection can send the next call
 * @param {(send: (call: Call) => void) => void} onClose
 */
function open(port, onReady, onClose) {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true });
  /** @type {Call | null} */
  let current = null;
  let status = '';
  /** @param {Call} call */
  const send = (call) => {
    current = call;
    socket.write(call.bytes);
  };
  /** @param {string | null} failure */
  const end = (failure) => {
    const ended = current;
    current = null;
    ended?.end(failure);
  };
  const read = createMessageReader({
    head({ first }) {
      status = first.slice(9, 12);
    },
    end() {
      end(status === '200' ? null : `status ${status}`);
      onReady(send);
    },
  });
  socket.once('connect', () => onReady(send));
  socket.on('data', read);
  socket.on('error', () => socket.destroy());
  socket.once('close', () => {
    onClose(send);
    end('a connection was closed during a call');
  });
  return socket;
}

/** @param {number} port */
function openKeptAlive(port) {
  connections += 1;
  open(
    port,
    (send) => {
      const next = waiting.shift();
      if (next) send(next);
      else free.push(send);
    },
    (send) => {
      connections -= 1;
      const at = free.indexOf(send);
      if (at >= 0) free.splice(at, 1);
    },
  );
}

/** @param {number} port @param {Call} call */
function sendOnNewConnection(port, call) {
  let isSent = false;
  const socket = open(
    port,
    (send) => {
      if (isSent) socket.destroy();
      else send(call);
      isSent = true;
    },
    () => isSent || call.end('no connection'),
  );
}

/** @param {Work} work @returns {Promise<Result>} */
async function run({ port, path, headers, body, firstNumber, perSecond, seconds }) {
  const lines = [`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', ...headers, `content-length: ${Buffer.byteLength(body)}`];
  const message = createNumbered(`${lines.join('\r\n')}\r\n\r\n${body}`);
  let [started, failed] = [0, 0];
  /** @type {string | null} */
  let failure = null;
  /** Calls that we've started and that haven't been answered. @type {Set<Call>} */
  const unanswered = new Set();

  /** @param {number} dueAt @param {number[]} durations @param {number[]} dues @returns {Call} */
  const begin = (dueAt, durations, dues) => {
    started += 1;
    message.setNumber(firstNumber + started);
    /** @type {Call} */
    const call = {
      // Make a copy, because the next call writes its number into the same buffer.
      bytes: Buffer.from(message.bytes),
      end(reason) {
        if (!unanswered.delete(call)) return;
        durations.push(performance.now() - dueAt);
        dues.push(dueAt + offset);
        if (reason === null) return;
        failed += 1;
        failure ??= reason;
      },
    };
    unanswered.add(call);
    return call;
  };

  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const from = performance.now();
  const offset = Number(process.hrtime.bigint()) / 1e6 - from;
  /** @param {number} rate @param {(call: Call) => void} send */
  const schedule = (rate, send) => {
    const count = Math.max(1, Math.round(rate * seconds));
    /** @type {number[]} */
    const durations = [];
    /** @type {number[]} */
    const dues = [];
    let due = 0;
    return {
      durations,
      dues,
      /** @param {number} now */
      sendDue(now) {
        for (; due < count && from + (due / rate) * 1_000 <= now; due += 1) send(begin(from + (due / rate) * 1_000, durations, dues));
        return due === count;
      },
    };
  };
  const usual = schedule(perSecond, (call) => {
    const send = free.pop();
    if (send) return send(call);
    waiting.push(call);
    if (connections < maxConnections) openKeptAlive(port);
  });
  const onNew = schedule(Math.min(newPerSecond, perSecond), (call) => sendOnNewConnection(port, call));
  await new Promise((resolve) => {
    const timer = setInterval(() => {
      const now = performance.now();
      const isDone = [usual.sendDue(now), onNew.sendDue(now)].every(Boolean) && unanswered.size === 0;
      if (!isDone && now < from + seconds * 1_000 + answerLimitMs) return;
      clearInterval(timer);
      resolve(null);
    }, tickMs);
  });
  delay.disable();
  for (const call of unanswered) call.end('timed out');
  waiting.length = 0;
  const list = (/** @type {{ dues: number[], durations: number[] }} */ { dues, durations }) =>
    dues.map((due, at) => [due, durations[at] ?? 0]);
  const sort = (/** @type {{ durations: number[] }} */ calls) => Float64Array.from(calls.durations).sort();
  return {
    durations: sort(usual),
    newDurations: sort(onNew),
    lateP99: delay.percentile(99) / 1e6,
    failed,
    failure,
    calls: list(usual),
    newCalls: list(onNew),
  };
}

process.on('message', async (/** @type {Work} */ work) => process.send?.(await run(work)));
process.on('disconnect', () => process.exit());
