/**
 * Makes calls at a fixed rate. Only some of them recall memories, so that we see how much time and CPU recall takes.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { ownCpuMs, treeOf } from '../bench/proc.js';

/**
 * @typedef {object} Load
 * @property {number} port
 * @property {string} key a key of a project that has memories
 * @property {number} pid the gateway's pid. The embedder is one of its child processes
 * @property {number} perSecond
 * @property {number} recallEvery every nth call recalls, or none if this is 0
 * @property {number} seconds
 * @property {(recalls: boolean) => { text: string, subject: string }} next
 * @property {() => number} databaseMs returns the CPU time of the database so far
 */

/**
 * @typedef {object} LoadResult all times are in milliseconds
 * @property {number[]} plain
 * @property {number[]} recalling
 * @property {number} recalled number of calls that got at least one memory
 * @property {{ gateway: number, embedder: number, database: number }} cpu CPU time per call
 */

/** @param {Load} load @returns {Promise<LoadResult>} */
export async function runLoad({ port, key, pid, perSecond, recallEvery, seconds, next, databaseMs }) {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: 64 });
  /** @type {number[]} */
  const plain = [];
  /** @type {number[]} */
  const recalling = [];
  let recalled = 0;
  /** @param {number} number */
  const call = async (number) => {
    const recalls = recallEvery > 0 && number % recallEvery === 0;
    const { text, subject } = next(recalls);
    const headers = {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'x-gateway-memory-subject': subject,
      'x-gateway-memory': recalls ? 'recall' : 'write',
    };
    const body = JSON.stringify({ model: 'plain/m', messages: [{ role: 'user', content: text }] });
    const startedAt = performance.now();
    const response = await pool.request({ path: '/v1/chat/completions', method: 'POST', headers, body });
    await response.body.text();
    if (response.statusCode !== 200) throw new Error(`a call got status ${response.statusCode}`);
    (recalls ? recalling : plain).push(performance.now() - startedAt);
    if (response.headers['x-gateway-memory-recalled']) recalled += 1;
  };
  const before = { threads: processMs(pid), database: databaseMs() };
  const from = performance.now();
  const count = perSecond * seconds;
  /** @type {Promise<void>[]} */
  const calls = [];
  for (let number = 0; number < count; number += 1) {
    // Send each call when it's due, even if earlier ones haven't finished.
    const waitMs = from + (number * 1_000) / perSecond - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    calls.push(call(number));
  }
  await Promise.all(calls);
  const after = processMs(pid);
  await pool.close();
  return {
    plain,
    recalling,
    recalled,
    cpu: {
      gateway: (after.gateway - before.threads.gateway) / count,
      embedder: (after.embedder - before.threads.embedder) / count,
      database: (databaseMs() - before.database) / count,
    },
  };
}

/** @param {number} pid the gateway's pid */
function processMs(pid) {
  const started = treeOf(pid).filter((other) => other !== pid);
  return { gateway: ownCpuMs(pid), embedder: started.reduce((sum, other) => sum + ownCpuMs(other), 0) };
}
