/** Profiles a scenario, and sums up either CPU time or allocated bytes for each module and each function. */
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { openInspector } from '../heap.js';
import { root } from '../launch.js';
import { withBench } from './environment.js';
import { threadMs } from './proc.js';
import { wholeNumber } from './run.js';
import { callsOf, scenarios } from './scenarios.js';

/** @typedef {{ id: number, callFrame: { functionName: string, url: string, lineNumber: number }, children?: number[] }} ProfileNode */
/** @typedef {{ nodes: ProfileNode[], samples: number[] }} CpuProfile */
/** @typedef {{ callFrame: ProfileNode['callFrame'], id: number, selfSize: number, children: AllocationNode[] }} AllocationNode */
/** @typedef {{ self: number, inclusive: number }} Times in samples or bytes */

const samplingMicros = 500;
const samplingBytes = 16_384;
/**
 * A target that uses less CPU time than this in 200 ms counts as idle. The limit is higher than in other measurements,
 * because the profiler uses some CPU time too.
 */
const idleMs = 60;

/** @param {string[]} args the command-line arguments */
export async function runProfile(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      checkout: { type: 'string', default: root },
      calls: { type: 'string' },
      'warm-up': { type: 'string', default: '60' },
      functions: { type: 'string', default: '25' },
      allocations: { type: 'boolean', default: false },
      out: { type: 'string' },
    },
  });
  const scenario = scenarios[positionals[0] ?? ''];
  if (!scenario || positionals.length > 1) throw new Error(`pass one scenario: ${Object.keys(scenarios).join(', ')}`);
  const calls = values.calls === undefined ? callsOf(scenario) : wholeNumber('--calls', values.calls, 1);
  const warmUp = wholeNumber('--warm-up', values['warm-up'], 0);
  const functions = wholeNumber('--functions', values.functions, 0);
  const checkout = resolve(values.checkout);
  await withBench({}, async (bench) => {
    const target = await bench.startGateway(checkout, { flags: ['--inspect=127.0.0.1:0'] });
    if (scenario.needs === 'memories') await target.gateway.addMemories();
    // In this scenario, every call is supposed to hit the cache, so fill it with one call first.
    if (scenario.vendorCalls === 0) await bench.measure(target, { ...scenario, vendorCalls: 1 }, 1, { idleMs });
    await bench.warmUp(target, scenario, { calls, seconds: warmUp });
    const inspector = await openInspector(target.gateway.program.log());
    try {
      const profile = values.allocations ? profileAllocations : profileTime;
      await profile({
        inspector,
        target,
        measure: () => bench.measure(target, scenario, calls, { idleMs }),
        title: scenario.title,
        calls,
        functions,
        checkout,
        out: values.out,
      });
    } finally {
      inspector.close();
    }
  });
}

/**
 * @typedef {object} ProfileOptions
 * @property {Awaited<ReturnType<typeof openInspector>>} inspector
 * @property {{ pid: number }} target
 * @property {() => Promise<unknown>} measure
 * @property {string} title
 * @property {number} calls
 * @property {number} functions
 * @property {string} checkout
 * @property {string | undefined} out
 */

/** @param {ProfileOptions} options */
async function profileTime({ inspector, target, measure, title, calls, functions, checkout, out }) {
  await inspector.send('Profiler.enable');
  await inspector.send('Profiler.setSamplingInterval', { interval: samplingMicros });
  await inspector.send('Profiler.start');
  const before = threadMs(target.pid);
  await measure();
  const after = threadMs(target.pid);
  /** @type {{ profile: CpuProfile }} */
  const { profile } = await inspector.send('Profiler.stop');
  if (out !== undefined) await writeFile(out, JSON.stringify(profile));
  console.log(`\n${title}: ${calls} calls, CPU µs per call\n`);
  for (const [name, ms] of [...after].sort(([, left], [, right]) => right - left)) {
    const micros = ((ms - (before.get(name) ?? 0)) * 1_000) / calls;
    if (micros >= 0.5) console.log(`${micros.toFixed(1).padStart(9)}  thread ${name}`);
  }
  /** @type {Map<number, number>} */
  const selfOf = new Map();
  for (const id of profile.samples) selfOf.set(id, (selfOf.get(id) ?? 0) + 1);
  const { modules, byFunction } = sumProfile(profile.nodes, selfOf, checkout);
  const mainMicros = (((after.get('main') ?? 0) - (before.get('main') ?? 0)) * 1_000) / calls;
  print('module', modules, mainMicros, Number.POSITIVE_INFINITY);
  print('function', byFunction, mainMicros, functions);
}

/**
 * Profiles allocations. The result includes objects that have already been garbage-collected.
 * @param {ProfileOptions} options
 */
async function profileAllocations({ inspector, measure, title, calls, functions, checkout, out }) {
  await inspector.send('HeapProfiler.enable');
  const sampling = { samplingInterval: samplingBytes, includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true };
  await inspector.send('HeapProfiler.startSampling', sampling);
  await measure();
  /** @type {{ profile: { head: AllocationNode } }} */
  const { profile } = await inspector.send('HeapProfiler.stopSampling');
  if (out !== undefined) await writeFile(out, JSON.stringify(profile));
  /** @type {ProfileNode[]} */
  const nodes = [];
  /** @type {Map<number, number>} */
  const selfOf = new Map();
  for (const queue = [profile.head]; queue.length > 0; ) {
    const { id, callFrame, selfSize, children } = /** @type {AllocationNode} */ (queue.pop());
    nodes.push({ id, callFrame, children: children.map((child) => child.id) });
    selfOf.set(id, selfSize);
    queue.push(...children);
  }
  const { modules, byFunction } = sumProfile(nodes, selfOf, checkout);
  const bytes = [...selfOf.values()].reduce((sum, size) => sum + size, 0) / calls;
  console.log(`\n${title}: ${calls} calls, bytes of the heap per call: ${bytes.toFixed(0)}`);
  print('module', modules, bytes, Number.POSITIVE_INFINITY);
  print('function', byFunction, bytes, functions);
}

/**
 * Prints a table of the samples, scaled so that they add up to `total`. For a CPU profile, pass the thread's CPU time.
 * Don't add up the times between samples instead, because on a busy machine they include time spent waiting for a core.
 * @param {string} heading
 * @param {Map<string, Times>} times
 * @param {number} total
 * @param {number} most maximum number of rows
 */
function print(heading, times, total, most) {
  const samples = [...times.values()].reduce((sum, { self }) => sum + self, 0);
  const column = (/** @type {number} */ value, /** @type {number} */ width) => value.toFixed(1).padStart(width);
  console.log(`\n     self       %  inclusive  ${heading}`);
  for (const [name, { self, inclusive }] of [...times].sort(([, left], [, right]) => right.self - left.self).slice(0, most)) {
    if (inclusive < samples / 1_000) continue;
    const scale = total / samples;
    console.log(`${column(self * scale, 9)} ${column((self * 100) / samples, 7)} ${column(inclusive * scale, 10)}  ${name}`);
  }
}

/**
 * Sums up self and inclusive values for each module and each function. Leaves out idle time, and counts recursive
 * functions only once.
 * @param {ProfileNode[]} nodes
 * @param {Map<number, number>} selfOf returns the self value of a node
 * @param {string} checkout
 */
function sumProfile(nodes, selfOf, checkout) {
  /** @type {Map<number, { node: ProfileNode, parent: number | null }>} */
  const byId = new Map(nodes.map((node) => [node.id, { node, parent: null }]));
  for (const { id, children } of nodes) {
    for (const child of children ?? []) {
      const entry = byId.get(child);
      if (entry) entry.parent = id;
    }
  }
  /** @type {Map<string, Times>} */
  const modules = new Map();
  /** @type {Map<string, Times>} */
  const byFunction = new Map();
  for (const [id, self] of selfOf) {
    /** @type {string[]} */
    const modulePath = [];
    /** @type {string[]} */
    const functionPath = [];
    for (let at = byId.get(id); at; at = at.parent === null ? undefined : byId.get(at.parent)) {
      modulePath.push(moduleOf(at.node.callFrame, checkout));
      functionPath.push(functionOf(at.node.callFrame, checkout));
    }
    if (functionPath[0] === '(idle)') continue;
    addTimes(modules, modulePath, self);
    addTimes(byFunction, functionPath, self);
  }
  for (const times of [modules, byFunction]) times.delete('(root)');
  return { modules, byFunction };
}

/**
 * @param {Map<string, Times>} times
 * @param {string[]} path from the running function up to the root
 * @param {number} self
 */
function addTimes(times, path, self) {
  for (const [index, name] of [...new Set(path)].entries()) {
    const entry = times.get(name) ?? { self: 0, inclusive: 0 };
    times.set(name, entry);
    if (index === 0) entry.self += self;
    entry.inclusive += self;
  }
}

/** @param {ProfileNode['callFrame']} frame @param {string} checkout */
function moduleOf({ url, functionName }, checkout) {
  if (url === '') return functionName.startsWith('(') ? functionName : 'native functions';
  if (url.startsWith('node:')) return url.replace(/^node:internal\/(?:deps\/)?([\w-]+).*/, 'node:internal/$1');
  const dependency = /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/.exec(url)?.[1];
  if (dependency !== undefined) return dependency;
  const path = pathOf(url, checkout);
  return (
    path
      .split('/')
      .slice(0, path.startsWith('src/') ? -1 : 1)
      .join('/') || path
  );
}

/** @param {ProfileNode['callFrame']} frame @param {string} checkout */
function functionOf({ url, functionName, lineNumber }, checkout) {
  if (url === '') return functionName;
  const path = url.startsWith('node:') ? url : pathOf(url, checkout).replace(/^.*node_modules\//, '');
  return `${functionName || '(anonymous)'} ${path}:${lineNumber + 1}`;
}

/** @param {string} url @param {string} checkout */
function pathOf(url, checkout) {
  return decodeURIComponent(url.replace('file://', '')).replace(`${checkout}/`, '');
}
