/**
 * Plays the neighbour, who abuses the gateway in one way until we stop it. This is a separate program.
 *
 * Start it with `fork` and send it messages. `{ kind, port, ...context }` starts the abuse, and the program replies as
 * soon as all connections are busy. `{ stop: true }` stops the abuse. The reply contains the number of responses by
 * status, and how many bytes have arrived, including those of incomplete responses.
 */
import { connect } from 'node:net';
import process from 'node:process';
import { createMessageReader } from '../bench/http-messages.js';
import { kinds } from './kinds.js';

/** @typedef {Omit<import('./kinds.js').Context, 'number'> & { kind: string, port: number, connections: number }} Work */

const openAtOnce = 50;
/** The pause between two bytes when we send a body byte by byte. */
const trickleMs = 500;
const reconnectMs = 20;

/** @type {Set<import('node:net').Socket>} */
const sockets = new Set();
/** @type {Record<string, number>} */
let responses = {};
let receivedBytes = 0;
let isRunning = false;
let number = 0;

/** @param {Work} work @param {() => void} onBusy called once the connection has sent its request */
function open(work, onBusy) {
  if (!isRunning) return;
  const { request, way } = kinds[work.kind] ?? never();
  number += 1;
  const from = way === 'address each' ? { localAddress: `127.${1 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}` } : {};
  const socket = connect({ host: '127.0.0.1', port: work.port, noDelay: true, ...from });
  sockets.add(socket);
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  let status = '';
  const send = () => {
    number += 1;
    const text = request({ ...work, number });
    if (typeof text !== 'string') for (const part of text) socket.write(part);
    else if (way === 'trickles') {
      const sent = text.indexOf('\r\n\r\n') + 1_000;
      let at = sent;
      socket.write(text.slice(0, sent));
      timer = setInterval(() => socket.write(text.slice(at, ++at)), trickleMs);
    } else socket.write(text);
    onBusy();
  };
  const read = createMessageReader({
    head({ first }) {
      status = first.slice(9, 12);
    },
    end() {
      responses[status] = (responses[status] ?? 0) + 1;
      if (!isRunning || way === 'address each') socket.destroy();
      else send();
    },
  });
  socket.once('connect', send);
  socket.on('data', (bytes) => {
    receivedBytes += bytes.length;
    read(bytes);
  });
  socket.on('error', () => socket.destroy());
  socket.once('close', () => {
    clearInterval(timer);
    sockets.delete(socket);
    setTimeout(() => open(work, onBusy), reconnectMs);
  });
}

/** @returns {never} */
function never() {
  throw new Error('unknown kind');
}

/**
 * Waits until each connection has sent its first request, or until ten seconds have passed.
 * @param {Work} work
 */
async function start(work) {
  responses = {};
  receivedBytes = 0;
  isRunning = true;
  let busy = 0;
  /** @type {() => void} */
  let finish = () => undefined;
  const ready = new Promise((resolve) => {
    finish = () => resolve(null);
    setTimeout(finish, 10_000).unref();
  });
  for (let opened = 0; opened < work.connections; opened += openAtOnce) {
    for (let at = opened; at < Math.min(opened + openAtOnce, work.connections); at += 1) {
      open(work, () => {
        busy += 1;
        if (busy === work.connections) finish();
      });
    }
    await new Promise((resolve) => setTimeout(resolve, reconnectMs));
  }
  await ready;
}

process.on('message', async (/** @type {Work | { stop: true }} */ message) => {
  if ('stop' in message) {
    isRunning = false;
    for (const socket of sockets) socket.destroy();
    process.send?.({ responses, receivedBytes });
  } else {
    await start(message);
    process.send?.({ isBusy: true });
  }
});
process.on('disconnect', () => process.exit());
