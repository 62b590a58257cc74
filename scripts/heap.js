/** What a program keeps in memory, asked of its inspector: begin it with `--inspect=127.0.0.1:0`. */

/**
 * Bytes that survive a full garbage collection: objects, and the buffers that they hold.
 * @typedef {{ calls: number, heapBytes: number, bufferBytes: number }} Measure
 */

/** How much of the measures, from the first on, is the time in which caches fill and code is compiled. */
const warmUpPart = 0.25;

/**
 * @param {string} stderr what the program said at its start
 * @returns {Promise<{ measure: () => Promise<Omit<Measure, 'calls'>>, close: () => void }>} a program does not end while it is open
 */
export async function openInspector(stderr) {
  const address = /ws:\/\/\S+/.exec(stderr)?.[0];
  if (address === undefined) throw new Error('the program has no inspector');
  const socket = new WebSocket(address);
  /** @type {Map<number, (result: { result: { value: string } }) => void>} */
  const waiting = new Map();
  let asked = 0;
  socket.addEventListener('message', ({ data }) => {
    const { id, result } = JSON.parse(String(data));
    waiting.get(id)?.(result);
    waiting.delete(id);
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true });
    socket.addEventListener('error', () => reject(new Error('the inspector does not answer')), { once: true });
  });
  /** @type {(method: string, params?: object) => Promise<{ result: { value: string } }>} */
  const ask = (method, params = {}) =>
    new Promise((resolve) => {
      asked += 1;
      waiting.set(asked, resolve);
      socket.send(JSON.stringify({ id: asked, method, params }));
    });
  const measure = async () => {
    // What the first collection finalises, the second one frees.
    await ask('HeapProfiler.collectGarbage');
    await ask('HeapProfiler.collectGarbage');
    const { result } = await ask('Runtime.evaluate', { expression: 'JSON.stringify(process.memoryUsage())' });
    const { heapUsed, arrayBuffers } = JSON.parse(result.value);
    return { heapBytes: heapUsed, bufferBytes: arrayBuffers };
  };
  return { measure, close: () => socket.close() };
}

/**
 * How many bytes have stayed of how many calls: between the least of the first and the least of the second half of the measures after the
 * warm-up. The least, because what is kept for a moment (idle connections, a batch under way) comes and goes, and what leaks stays.
 * @param {readonly Measure[]} measures
 * @param {'heapBytes' | 'bufferBytes'} what
 */
export function growthOf(measures, what) {
  const settled = measures.slice(Math.floor(measures.length * warmUpPart));
  const middle = Math.floor(settled.length / 2);
  const [before, after] = [settled.slice(0, middle), settled.slice(middle)].map(
    (half) => half.toSorted((one, other) => one[what] - other[what])[0],
  );
  if (!before || !after || after.calls <= before.calls) throw new Error('too few measures');
  return { bytes: after[what] - before[what], calls: after.calls - before.calls };
}

/**
 * A call that is kept, were it only its facts, is more than a kilobyte; what comes and goes at rest was within 100 KiB (measured).
 * @param {{ bytes: number, calls: number }} growth
 */
export function isLeak({ bytes, calls }) {
  return bytes > Math.max(calls * 250, 256 * 1_024);
}
