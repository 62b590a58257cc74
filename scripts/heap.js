/**
 * Measures how much memory a program uses, through its inspector. The program has to be started with
 * `--inspect=127.0.0.1:0`.
 */

/**
 * The memory that is still in use after a full garbage collection. Buffers are counted separately, because they aren't
 * part of the heap.
 * @typedef {{ calls: number, heapBytes: number, bufferBytes: number }} Measure
 */

/**
 * @typedef {object} Inspector
 * @property {(method: string, params?: object) => Promise<any>} send calls a method of the Chrome DevTools protocol
 * @property {() => Promise<Omit<Measure, 'calls'>>} measure
 * @property {() => void} close
 */

/** We ignore this fraction of the measurements at the start, while caches are filling up and code is being compiled. */
const warmUpPart = 0.25;

/**
 * @param {string} stderr the program's output at startup
 * @returns {Promise<Inspector>} the program keeps running while this connection is open
 */
export async function openInspector(stderr) {
  const address = /ws:\/\/\S+/.exec(stderr)?.[0];
  if (address === undefined) throw new Error('the program has not started its inspector');
  const socket = new WebSocket(address);
  /** @type {Map<number, (result: any) => void>} */
  const waiting = new Map();
  let lastId = 0;
  socket.addEventListener('message', ({ data }) => {
    const { id, result } = JSON.parse(String(data));
    waiting.get(id)?.(result);
    waiting.delete(id);
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true });
    socket.addEventListener('error', () => reject(new Error('the inspector does not respond')), { once: true });
  });
  /** @type {Inspector['send']} */
  const send = (method, params = {}) =>
    new Promise((resolve) => {
      lastId += 1;
      waiting.set(lastId, resolve);
      socket.send(JSON.stringify({ id: lastId, method, params }));
    });
  const measure = async () => {
    // Objects with a finalizer may only become collectable when it has run, so collect twice.
    await send('HeapProfiler.collectGarbage');
    await send('HeapProfiler.collectGarbage');
    const { result } = await send('Runtime.evaluate', { expression: 'JSON.stringify(process.memoryUsage())' });
    const { heapUsed, arrayBuffers } = JSON.parse(result.value);
    return { heapBytes: heapUsed, bufferBytes: arrayBuffers };
  };
  return { send, measure, close: () => socket.close() };
}

/**
 * Estimates how many bytes have leaked, and over how many calls. After the warm-up, we compare the minimum of the first
 * half with the minimum of the second half. A minimum doesn't include memory that is only used for a while (e.g. for
 * idle connections or a running batch), but it does include leaks.
 * @param {readonly Measure[]} measures
 * @param {'heapBytes' | 'bufferBytes'} what
 */
export function growthOf(measures, what) {
  const settled = measures.slice(Math.floor(measures.length * warmUpPart));
  const middle = Math.floor(settled.length / 2);
  const [before, after] = [settled.slice(0, middle), settled.slice(middle)].map(
    (half) => half.toSorted((one, other) => one[what] - other[what])[0],
  );
  if (!before || !after || after.calls <= before.calls) throw new Error('too few measurements');
  return { bytes: after[what] - before[what], calls: after.calls - before.calls };
}

/**
 * A leaked call costs more than a kilobyte, even without its text. The memory of an idle service varies by up to 100
 * KiB (measured). Both thresholds leave some room.
 * @param {{ bytes: number, calls: number }} growth
 */
export function isLeak({ bytes, calls }) {
  return bytes > Math.max(calls * 250, 256 * 1_024);
}
