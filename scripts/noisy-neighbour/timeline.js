/** Formats a trace as a table with a row for every tenth of a second. */

/**
 * A snapshot of CPU times. All times are in milliseconds, and each CPU time counts from the start of its thread or
 * program.
 * @typedef {object} Sample
 * @property {number} at
 * @property {Record<string, number>} threads CPU time of the gateway's threads
 * @property {number} waited how long the gateway's main thread has waited for a core
 * @property {Record<string, number>} others CPU time of other programs
 */

/**
 * @typedef {object} Trace
 * @property {number[][]} turns start, duration and CPU time of each turn of the event loop that took longer than 5 ms
 * @property {number[][]} collections start, duration and kind of each garbage collection
 * @property {Sample[]} samples
 * @property {number[][]} calls the time at which each of the other project's calls was due, and how long it took
 * @property {number[][]} newCalls the same for calls that opened a connection
 */

const rowMs = 100;
/** Threads that use a smaller share of a core than this aren't shown. */
const minShare = 0.01;

/** @param {Trace} trace */
export function formatTimeline({ turns, collections, samples, calls, newCalls }) {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last) return 'no samples\n';
  const start = Math.min(...calls.map(([due = 0]) => due));
  const busy = Object.keys(last.threads).filter(
    (name) => (last.threads[name] ?? 0) - (first.threads[name] ?? 0) > minShare * (last.at - first.at),
  );
  const others = Object.keys(last.others);
  /** @param {number[][]} list @param {number} from */
  const within = (list, from) => list.filter(([at = 0]) => at >= from && at < from + rowMs);
  /** Interpolates between samples. @param {(sample: Sample) => number} read @param {number} at */
  const valueAt = (read, at) => {
    const next = samples.findIndex((sample) => sample.at >= at);
    const [before, after] = [samples[next - 1], samples[next]];
    if (!before || !after) return read(next === 0 ? first : last);
    return read(before) + ((read(after) - read(before)) * (at - before.at)) / (after.at - before.at);
  };
  const longest = (/** @type {number[][]} */ list) => Math.round(Math.max(0, ...list.map(([, duration = 0]) => duration)));
  const rows = [
    [
      'ms',
      'longest call',
      'on a new connection',
      'longest turn',
      'GC',
      'main waited %',
      ...busy.map((name) => `${name} %`),
      ...others.map((name) => `${name} %`),
    ],
  ];
  for (let from = start; from + rowMs <= last.at; from += rowMs) {
    const percent = (/** @type {(sample: Sample) => number} */ read) =>
      String(Math.round((100 * (valueAt(read, from + rowMs) - valueAt(read, from))) / rowMs));
    rows.push([
      String(Math.round(from - start)),
      ...[calls, newCalls, turns].map((list) => String(longest(within(list, from)))),
      String(Math.round(within(collections, from).reduce((sum, [, duration = 0]) => sum + duration, 0))),
      percent(({ waited }) => waited),
      ...busy.map((name) => percent(({ threads }) => threads[name] ?? 0)),
      ...others.map((name) => percent((sample) => sample.others[name] ?? 0)),
    ]);
  }
  return `${rows.map((cells) => cells.join('\t')).join('\n')}\n`;
}
