/**
 * Jest's `testRunner`. jest-circus still runs the tests of a file, but we load the file with Node instead of Jest's
 * module registry.
 *
 * Jest would evaluate all modules again for each test file, and the gateway takes seconds to load. Node loads a module
 * once per worker process, strips types natively and caches compiled code. No test needs what only the registry can do
 * (module mocks, globals per file).
 */
import { readFileSync } from 'node:fs';
import { createRequire, enableCompileCache, flushCompileCache, registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';
import { setV8Flags } from '../../src/core/v8-flags.ts';
import { type JestGlobals, type Mocks, setJestGlobals } from './jest-globals.ts';

type TestRunner = (
  globalConfig: object,
  config: object,
  environment: { readonly moduleMocker: Mocks },
  moduleRegistry: object,
  testPath: string,
  sendMessageToJest?: unknown,
) => Promise<object>;

const require = createRequire(import.meta.url);
const { default: runWithCircus } = require('jest-circus/runner') as { default: TestRunner };
const globalsUrl = new URL('jest-globals.ts', import.meta.url).href;

// The gateways of tests use the same cache.
setV8Flags();
enableCompileCache(new URL('../../node_modules/.cache/model-gateway/compiled', import.meta.url).pathname);
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === '@jest/globals' ? { url: globalsUrl, shortCircuit: true } : next(specifier, context),
});

// A worker should end when Jest is killed, which doesn't happen on its own. A listener for `disconnect` would notice,
// but also keep the worker alive in all other cases.
const parent = process.ppid;
setInterval(() => process.ppid === parent || process.exit(1), 1_000).unref();

// At a normal exit, V8 first completes its background compilation and writes the result, so make it quick instead. If
// there's a real leak, we report it and let Jest deal with the worker.
const endMessage = 2;
if (process.argv[1]?.endsWith('processChild.js')) process.prependListener('message', endWorker);

function endWorker(message: unknown): void {
  if (!Array.isArray(message) || message[0] !== endMessage) return;
  process.removeListener('message', endWorker);
  setImmediate(() => {
    const open = process.getActiveResourcesInfo().filter((name) => name !== 'PipeWrap' && name !== 'Immediate');
    if (open.length === 0) process.exit(0);
    process.stderr.write(`a test worker cannot end: ${open.join(', ')}\n`);
  });
}

const runNatively: TestRunner = async (globalConfig, config, environment, _moduleRegistry, testPath, sendMessageToJest) => {
  const mocks = environment.moduleMocker;
  const jest: Mocks = {
    fn: mocks.fn.bind(mocks),
    spyOn: mocks.spyOn.bind(mocks),
    restoreAllMocks: mocks.restoreAllMocks.bind(mocks),
  };
  const nodeModules = {
    // Circus keeps the tests of a file in its module state, so each file needs a new instance.
    requireInternalModule(path: string) {
      delete require.cache[path];
      return require(path);
    },
    setGlobalsForRuntime: (globals: Omit<JestGlobals, 'jest'>) => setJestGlobals({ ...globals, jest }),
    requireModule: require,
    unstable_shouldLoadAsEsm: () => true,
    unstable_importModule: (path: string) => import(pathToFileURL(path).href),
    enterTestCode() {},
    leaveTestCode() {},
  };
  const variables = { ...process.env };
  const cpuBefore = usedCpuSeconds();
  try {
    const result = await runWithCircus(globalConfig, config, environment, nodeModules, testPath, sendMessageToJest);
    return { ...result, cpuSeconds: usedCpuSeconds() - cpuBefore };
  } finally {
    deleteCircusState();
    restoreEnvironment(variables);
    flushCompileCache();
  }
};

/**
 * Returns the CPU time of this process. On Linux, this includes children that have ended. It doesn't include the shared
 * PostgreSQL server.
 */
function usedCpuSeconds(): number {
  if (process.platform !== 'linux') {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  }
  const stat = readFileSync('/proc/self/stat', 'utf8');
  // The second field is the name of the program in parentheses, which can contain spaces. Fields 14 to 17 are the CPU
  // times of the process and its children, in hundredths of a second.
  const times = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 15);
  return times.reduce((sum, ticks) => sum + Number(ticks), 0) / 100;
}

/** Circus keeps its handlers and tests in the global object, so the memory of each test file would never be freed. */
function deleteCircusState(): void {
  for (const key of Object.getOwnPropertySymbols(globalThis)) {
    if (key.description === 'EVENT_HANDLERS' || key.description === 'JEST_STATE_SYMBOL') Reflect.deleteProperty(globalThis, key);
  }
}

function restoreEnvironment(variables: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) if (!(name in variables)) delete process.env[name];
  Object.assign(process.env, variables);
}

export default runNatively;
