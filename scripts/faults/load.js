/**
 * Generates a steady load. Several loops make one call after another, half of them streamed. Another loop sends facts
 * that memory is supposed to learn.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * @typedef {object} Call
 * @property {string} taskId
 * @property {number} startedAt
 * @property {number} endedAt
 * @property {string | null} failure null if the caller got a complete answer
 */

export const callers = 4;
const pauseMs = 150;
const factPauseMs = 2_000;
/** Longer than any of the gateway's timeouts in this deployment. */
const callLimitMs = 200_000;

/**
 * Makes a call and reads the response to its end.
 * @param {string} url
 * @param {string} key
 * @param {object} body
 * @param {Record<string, string>} headers
 * @param {number} [limitMs]
 * @returns {Promise<string | null>} the reason if the call failed
 */
export async function sendCall(url, key, body, headers, limitMs = callLimitMs) {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'cache-control': 'no-cache', ...headers },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(limitMs),
    });
    const text = await response.text();
    if (response.status !== 200) return `${response.status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? text.slice(0, 100)}`;
    if ('stream' in body && body.stream) return /data: \[DONE\]\s*$/.test(text) ? null : 'incomplete stream that looks complete';
    return text.includes('"finish_reason"') ? null : 'incomplete answer that looks complete';
  } catch (error) {
    const { message, name } = /** @type {Error} */ (error);
    return name === 'TimeoutError' ? 'no answer' : `broken connection (${message})`;
  }
}

/**
 * Starts the load, which runs until `stop` is called.
 * @param {{ url: string, key: string, factsKey: string, name: string, model: string }} options
 */
export function startLoad({ url, key, factsKey, name, model }) {
  /** @type {Call[]} */
  const calls = [];
  /** @type {string[]} */
  const facts = [];
  let isOver = false;
  /** @param {number} index */
  const loop = async (index) => {
    for (let number = 0; !isOver; number += 1) {
      const taskId = `${name}-${index}-${number}`;
      const startedAt = performance.now();
      const stream = (index + number) % 2 === 0;
      const body = { model, stream, messages: [{ role: 'user', content: `Question ${taskId}.` }] };
      const failure = await sendCall(url, key, body, { 'x-gateway-task-id': taskId });
      calls.push({ taskId, startedAt, endedAt: performance.now(), failure });
      await sleep(pauseMs);
    }
  };
  const state = async () => {
    for (let number = 0; !isOver; number += 1) {
      const fact = `I keep parcel ${number} of ${name} in shed ${number}.`;
      const taskId = `${name}-fact-${number}`;
      const startedAt = performance.now();
      const body = { model: 'steady/echo', messages: [{ role: 'user', content: fact }] };
      const failure = await sendCall(url, factsKey, body, { 'x-gateway-memory': 'write', 'x-gateway-task-id': taskId });
      calls.push({ taskId, startedAt, endedAt: performance.now(), failure });
      if (failure === null) facts.push(fact);
      await sleep(factPauseMs);
    }
  };
  const running = Promise.all([state(), ...Array.from({ length: callers }, (_, index) => loop(index))]);
  return {
    calls,
    facts,
    async stop() {
      isOver = true;
      await running;
    },
  };
}
