/** Calculates the medians of a scenario's rounds, and formats them as tables. */

/** @typedef {import('./measure.js').Round} Round */

/**
 * @typedef {object} Measurement
 * @property {Map<string, Round[]>} roundsOf the rounds of each target, in the order in which they ran
 * @property {Map<string, number>} storedOf bytes that the rounds added to the database of each target
 */

/**
 * @typedef {object} Row
 * @property {string} scenario
 * @property {string} target
 * @property {number} rounds
 * @property {number} calls
 * @property {number} cpuMicros per call. Like all other values, it's the median of the rounds unless stated otherwise
 * @property {number[]} cpuMicrosOfRounds
 * @property {number} mainMicros
 * @property {number} databaseMicros
 * @property {number} toFloor median of the ratios to the floor within the same round
 * @property {number} toFirst median of the ratios to the first gateway within the same round
 * @property {number[]} toFirstOfRounds
 * @property {[number, number] | null} toFirstInterval 95 % confidence interval of `toFirst`
 * @property {number[]} toFirstOfStarts median of each start, if there was more than one
 * @property {number} perSecond
 * @property {number} perSecondToFirst ratio to the first gateway
 * @property {number} p50 milliseconds, over the calls of all rounds
 * @property {number} p99
 * @property {number} firstByteP50
 * @property {number} firstByteP99
 * @property {number} totalMicros the gateway and PostgreSQL together
 * @property {number} storedPerCall bytes that each call adds to the database
 * @property {number} storedPerNewByte bytes that the database grows per byte of new text in a session
 * @property {number} memoryMegabytes measured after the last round
 * @property {number} vendorCalls
 */

/**
 * @param {string} scenario
 * @param {Map<string, Round[]>} roundsOf the rounds of each target, in the order in which they ran
 * @param {ReadonlyMap<string, number>} [storedOf] bytes that the rounds added to the database of each target
 * @returns {Row[]}
 */
export function summarize(scenario, roundsOf, storedOf = new Map()) {
  const [floor = [], first = []] = [roundsOf.get('floor'), [...roundsOf].find(([label]) => label !== 'floor' && label !== 'vendor')?.[1]];
  return [...roundsOf].map(([target, rounds]) => {
    // We only want to know how fast the vendor responds, so leave out its CPU time.
    const isVendor = target === 'vendor';
    const middle = (/** @type {(round: Round) => number} */ pick) => median(rounds.map(pick));
    /** @param {Round[]} base @param {(round: Round) => number} pick */
    const ratios = (base, pick) => rounds.flatMap((round, index) => (base[index] ? [pick(round) / pick(base[index])] : []));
    const ratio = (/** @type {Round[]} */ base, /** @type {(round: Round) => number} */ pick) => median(ratios(base, pick));
    const cpu = (/** @type {Round} */ round) => (isVendor ? Number.NaN : round.cpuMicros);
    const perSecond = (/** @type {Round} */ round) => round.perSecond;
    const sum = (/** @type {(round: Round) => number} */ pick) => rounds.reduce((total, round) => total + pick(round), 0);
    const stored = storedOf.get(target) ?? Number.NaN;
    const newBytes = sum((round) => round.newBytes);
    const durations = sorted(rounds.map((round) => round.durations));
    const firstBytes = sorted(rounds.map((round) => round.firstBytes));
    return {
      scenario,
      target,
      rounds: rounds.length,
      calls: sum((round) => round.calls),
      cpuMicros: middle(cpu),
      cpuMicrosOfRounds: rounds.map(cpu),
      mainMicros: isVendor ? Number.NaN : middle((round) => round.mainMicros),
      databaseMicros: middle((round) => round.databaseMicros),
      toFloor: ratio(floor, cpu),
      toFirst: target === 'floor' ? Number.NaN : ratio(first, cpu),
      toFirstOfRounds: target === 'floor' || isVendor ? [] : ratios(first, cpu),
      toFirstInterval: target === 'floor' || isVendor ? null : medianInterval(ratios(first, cpu)),
      toFirstOfStarts: [],
      totalMicros: middle((round) => round.cpuMicros + round.databaseMicros),
      storedPerCall: stored / sum((round) => round.calls),
      storedPerNewByte: newBytes === 0 ? Number.NaN : stored / newBytes,
      perSecond: middle(perSecond),
      perSecondToFirst: ratio(first, perSecond),
      p50: centile(durations, 0.5),
      p99: centile(durations, 0.99),
      firstByteP50: centile(firstBytes, 0.5),
      firstByteP99: centile(firstBytes, 0.99),
      memoryMegabytes: isVendor ? Number.NaN : (rounds.at(-1)?.memory ?? Number.NaN) / 1e6,
      vendorCalls: middle((round) => round.vendorCalls),
    };
  });
}

/**
 * Summarizes the rounds of several starts as if all of them came from a single start.
 * @param {string} scenario
 * @param {readonly Measurement[]} starts
 * @returns {Row[]}
 */
export function summarizeStarts(scenario, starts) {
  /** @type {Map<string, Round[]>} */
  const roundsOf = new Map();
  /** @type {Map<string, number>} */
  const storedOf = new Map();
  for (const start of starts) {
    for (const [target, rounds] of start.roundsOf) roundsOf.set(target, [...(roundsOf.get(target) ?? []), ...rounds]);
    for (const [target, bytes] of start.storedOf) storedOf.set(target, (storedOf.get(target) ?? 0) + bytes);
  }
  const rows = summarize(scenario, roundsOf, storedOf);
  if (starts.length === 1) return rows;
  const each = starts.map((start) => summarize(scenario, start.roundsOf));
  return rows.map((row, index) => ({ ...row, toFirstOfStarts: each.map((ofStart) => ofStart[index]?.toFirst ?? Number.NaN) }));
}

/**
 * Returns a 95 % confidence interval for the median, or null if there are too few values. Both ends of the interval are
 * measured values. That works for any distribution, as long as the values are independent.
 * @param {readonly number[]} values
 * @returns {[number, number] | null}
 */
export function medianInterval(values) {
  const ordered = Float64Array.from(values).sort();
  // The number of values below the median has a binomial distribution. At each end, we drop as many values as we can
  // while the probability of dropping the median stays at or below 2.5 %.
  let probability = 0.5 ** ordered.length;
  let [omitted, sum] = [0, probability];
  while (omitted < ordered.length && sum <= 0.025) {
    omitted += 1;
    probability *= (ordered.length - omitted + 1) / omitted;
    sum += probability;
  }
  const [low, high] = [ordered[omitted - 1], ordered[ordered.length - omitted]];
  return low === undefined || high === undefined ? null : [low, high];
}

/**
 * Returns a line for each comparison of two gateways, with the confidence interval of their ratio.
 * @param {readonly Row[]} rows
 */
export function describeIntervals(rows) {
  return rows.flatMap(({ scenario, target, toFirst, toFirstInterval, toFirstOfStarts, toFirstOfRounds }) => {
    if (toFirstInterval === null || toFirst === 1) return [];
    const [low, high] = toFirstInterval.map((bound) => format(bound, 3));
    const starts = toFirstOfStarts.length === 0 ? '' : `; by start ${toFirstOfStarts.map((ratio) => format(ratio, 3)).join(', ')}`;
    return [
      `${scenario}: ${target} ÷ first ${format(toFirst, 3)}, 95 % interval ${low} to ${high} (${toFirstOfRounds.length} rounds${starts})`,
    ];
  });
}

/** @typedef {'cpuMicrosOfRounds' | 'toFirstOfRounds' | 'toFirstInterval' | 'toFirstOfStarts'} ListName */

/** @type {[Exclude<keyof Row, ListName>, string, number][]} property, heading and number of digits */
const columns = [
  ['cpuMicros', 'CPU µs', 0],
  ['mainMicros', 'main', 0],
  ['toFloor', '÷ floor', 2],
  ['toFirst', '÷ first', 2],
  ['databaseMicros', 'PG µs', 0],
  ['totalMicros', 'total', 0],
  ['storedPerCall', 'B/call', 0],
  ['storedPerNewByte', 'B/new B', 2],
  ['perSecond', 'calls/s', 0],
  ['perSecondToFirst', '÷ first', 2],
  ['p50', 'p50 ms', 2],
  ['p99', 'p99 ms', 2],
  ['firstByteP50', 'first p50', 2],
  ['firstByteP99', 'first p99', 2],
  ['memoryMegabytes', 'MB', 0],
];

/** These columns are only shown if `extra` names them. */
const special = new Set(['toFirst', 'perSecondToFirst', 'firstByteP50', 'firstByteP99']);

/**
 * @param {Row[]} rows
 * @param {string} title
 * @param {string[]} extra the special columns to show
 */
export function formatTable(rows, title, extra) {
  const shown = columns.filter(([name]) => (!special.has(name) || extra.includes(name)) && rows.some((row) => Number.isFinite(row[name])));
  const width = Math.max(...rows.map(({ target }) => target.length), 8);
  const heading = `${''.padEnd(width)} ${shown.map(([, text]) => text.padStart(10)).join('')}`;
  const lines = rows.map(
    (row) => `${row.target.padEnd(width)} ${shown.map(([name, , digits]) => format(Number(row[name]), digits).padStart(10)).join('')}`,
  );
  return `\n${title}\n${heading}\n${lines.join('\n')}`;
}

/**
 * @param {Row[]} rows
 * @param {(scenario: string) => string} titleOf
 */
export function formatSummary(rows, titleOf) {
  const shown = columns.filter(([name]) => name !== 'perSecondToFirst' && rows.some((row) => Number.isFinite(row[name])));
  const lines = rows
    .filter(({ target }) => target !== 'floor' && target !== 'vendor')
    .map((row) => {
      const floor = rows.find(({ scenario, target }) => scenario === row.scenario && target === 'floor');
      const values = shown.map(([name, , digits]) => format(Number(row[name]), digits));
      return [titleOf(row.scenario), row.target, format(floor?.cpuMicros ?? Number.NaN, 0), ...values];
    });
  const heading = ['scenario', 'gateway', 'floor µs', ...shown.map(([, text]) => text)];
  return `\n${[heading, heading.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')}`;
}

/** @param {number} value @param {number} digits */
function format(value, digits) {
  return Number.isFinite(value) ? value.toFixed(digits) : '-';
}

/** @param {Float64Array[]} lists */
function sorted(lists) {
  return Float64Array.from(lists.flatMap((list) => [...list])).sort();
}

/** @param {Float64Array} list has to be sorted @param {number} part */
export function centile(list, part) {
  return list[Math.min(list.length - 1, Math.floor(list.length * part))] ?? Number.NaN;
}

/** @param {number[]} list */
function median(list) {
  const values = Float64Array.from(list).sort();
  return (centile(values, 0.5) + (values[Math.ceil(values.length / 2) - 1] ?? Number.NaN)) / 2;
}
