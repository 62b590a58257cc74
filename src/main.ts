#!/usr/bin/env node
/**
 * The command line: `gateway start | serve | worker | migrate | check-config | vendors | demo-vendor |
 * fetch-embedder | codec-server`, and the commands in `cli/`. Exits with 0 after an orderly stop and with 1 after an error. Each error
 * is one plain line on standard error.
 */
import { isatty } from 'node:tty';
import type { ParseArgsConfig } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { type Config, ConfigError } from './config/config.ts';
import { parseOptions } from './config/parse-options.ts';
import { errorCode, errorMessage } from './core/error-messages.ts';
import { untilAborted } from './core/time-limit.ts';
import { readVersion } from './core/version.ts';
import type { ServiceHost } from './service/service-host.ts';
import { StartError } from './service/start-error.ts';

const usage = async (): Promise<string> => `Usage: gateway <command>

  start           run the whole service in one process (npm start does this)
  serve           run an API process (needs DATABASE_URL)
  worker          run a process for durable work (needs DATABASE_URL and Temporal)
  migrate         migrate the database schema (needs DATABASE_URL)
  check-config    validate the settings and gateway.yaml without starting
  vendors         list the known vendors, or add a provider to gateway.yaml
  demo-vendor     run only the demo vendor [--port N]
  fetch-embedder  fetch the files of the local embedder [--to FOLDER]
  codec-server    decode payloads in the Temporal UI for people who have the admin token
  payload-key     show which payload keys are still needed, or rotate TEMPORAL_PAYLOAD_KEY

Commands that call a running service:

${(await import('./cli/commands.ts')).overview()}
Run gateway <command> --help for details.
`;

/**
 * We ignore a second stop signal that arrives sooner than this, because a supervisor that signals the whole process
 * group may deliver the same stop twice.
 */
const secondSignalMs = 500;

/** If a stop takes longer than this, we print how to cut it short. */
const slowStopMs = 1_000;

// V8 would allocate objects that tend to live long, such as lists of settled calls, directly in the old space. Such a
// list keeps its calls alive until the old space is collected, long after they have been stored, so each of them was
// copied twice.
setFlagsFromString('--no-allocation-site-pretenuring');
process.exitCode = await run(process.argv.slice(2));
// After an orderly stop, don't wait any longer for whatever still keeps the event loop alive.
setTimeout(() => process.exit(), 3_000).unref();

async function run([command = 'help', ...rest]: string[]): Promise<number> {
  try {
    switch (command) {
      case 'start':
      case 'serve':
      case 'worker':
        if (await printHelpIfRequested(readOptions(rest, {}))) return 0;
        await (await loadService()).runService(command, createHost());
        return 0;
      case 'member':
        await runClusterWorker(rest);
        return 0;
      case 'embedder':
        if (!process.connected) throw new StartError('gateway embedder is internal: start, serve and worker run it');
        await (await import('./embedder/process.ts')).runEmbedderProcess();
        return process.exit(0);
      case 'migrate':
        if (await printHelpIfRequested(readOptions(rest, {}))) return 0;
        await migrate();
        return 0;
      case 'check-config':
        prepareOutput();
        return await (await import('./cli/check-config-command.ts')).checkConfig(rest, process.env, { write, writeError }, checkProviders);
      case 'vendors':
        prepareOutput();
        return await (await import('./cli/vendors-command.ts')).runVendorsCommand(rest, process.env, { write, writeError });
      case 'fetch-embedder':
        await runFetchEmbedder(rest);
        return 0;
      case 'demo-vendor':
        await runDemoVendor(rest);
        return 0;
      case 'codec-server':
        await (await import('./codec-server/run-codec-server.ts')).runCodecServer(rest, createHost());
        return 0;
      case 'payload-key':
        prepareOutput();
        return await (await import('./cli/payload-key-command.ts')).runPayloadKeyCommand(rest, process.env, { write, writeError });
      case 'help':
      case '--help':
      case '-h':
        write(await usage());
        return 0;
      case '--version':
        write(`${readVersion()}\n`);
        return 0;
      default:
        if ((await import('./cli/commands.ts')).isCommandGroup(command)) {
          prepareOutput();
          const { runCommand } = await import('./cli/commands.ts');
          return await runCommand([command, ...rest], process.env, { write, writeError, stream: process.stdout });
        }
        process.stderr.write(`gateway: unknown command ${command}\n\n${await usage()}`);
        return 1;
    }
  } catch (error) {
    const lines = error instanceof ConfigError ? error.errors : error instanceof StartError ? [error.message] : null;
    if (lines === null) throw error;
    for (const line of lines) process.stderr.write(`gateway: ${line}\n`);
    return 1;
  }
}

const slowStopHint = 'Waiting for running calls to end. Press Ctrl+C again to cut them off.\n';

/** Prepares for a command that prints something and ends. */
function prepareOutput(): void {
  process.channel?.unref();
  // It isn't an error if the reader closes the pipe early, as in `gateway catalog list | head`.
  process.stdout.on('error', () => process.exit(process.exitCode ?? 0));
}

/**
 * Loaded on demand, like everything that uses Temporal. For a command that calls a running service, loading would take
 * most of the time.
 */
function loadService(): Promise<typeof import('./service.ts')> {
  return import('./service.ts');
}

/**
 * A stop signal ends the migration immediately. The database rolls the current one back, and an index that was being
 * built is built again the next time.
 */
async function migrate(): Promise<void> {
  const host = createHost();
  host.stopping.addEventListener('abort', () => process.exit(1), { once: true });
  await (await loadService()).runMigrations(host);
}

async function checkProviders(config: Config) {
  return (await import('./service/check-providers.ts')).checkProviders(config);
}

type OptionTypes = NonNullable<ParseArgsConfig['options']>;

/** Parses the options of a command, including `--help`. Throws ConfigError for an unknown argument. */
function readOptions(args: string[], options: OptionTypes): Readonly<Record<string, unknown>> {
  return parseOptions({ args, options: { ...options, help: { type: 'boolean', short: 'h' } } }).values;
}

async function printHelpIfRequested({ help }: Readonly<Record<string, unknown>>): Promise<boolean> {
  if (help === true) write(await usage());
  return help === true;
}

function write(text: string): void {
  process.stdout.write(text);
}

function writeError(text: string): void {
  process.stderr.write(text);
}

/**
 * Creates the service's view of this process. It's asked to stop on SIGTERM and SIGINT, and when its terminal closes or
 * its launcher dies. Any other SIGHUP reloads the configuration.
 */
function createHost(): ServiceHost {
  // The terminal or the reader of a pipe may close, but the service goes on without them.
  for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);
  const stop = new AbortController();
  let stoppedAt = 0;
  const onStop = (): void => {
    const now = performance.now();
    if (!stop.signal.aborted) stoppedAt = now;
    else if (now - stoppedAt > secondSignalMs) process.exit(1);
    stop.abort();
  };
  process.on('SIGTERM', onStop);
  process.on('SIGINT', onStop);
  if (process.stdout.isTTY) process.once('SIGINT', () => setTimeout(() => write(slowStopHint), slowStopMs).unref());
  if (process.env.GATEWAY_BOOTSTRAP_IPC) stopWithBootstrap(Number(process.env.GATEWAY_BOOTSTRAP_IPC), onStop);
  let reload = (): void => undefined;
  const terminals = [0, 1, 2].filter((fd) => isatty(fd));
  // A terminal that closes also sends SIGHUP. By then its descriptors don't refer to a terminal any more.
  const hasLostTerminal = (): boolean => terminals.length > 0 && !terminals.some((fd) => isatty(fd));
  process.on('SIGHUP', () => (hasLostTerminal() ? onStop() : reload()));
  return {
    ...{ env: process.env, write, writeError, isTerminal: process.stdout.isTTY === true },
    stopping: stop.signal,
    onReload: (action) => (reload = action),
    clusterWorker: null,
  };
}

/** Runs one process of a cluster (service/cluster.ts). It reloads when its parent tells it to, and not on SIGHUP. */
async function runClusterWorker([role]: string[]): Promise<void> {
  const host = createHost();
  const parentExited = new AbortController();
  const { joinCluster } = await import('./service/cluster-worker.ts');
  const clusterWorker = await joinCluster(() => parentExited.abort());
  const stopping = AbortSignal.any([host.stopping, parentExited.signal]);
  const { runService } = await loadService();
  await runService(role === 'start' ? 'start' : 'serve', { ...host, stopping, clusterWorker });
}

/**
 * Stops the service when its launcher (scripts/launch.js) dies, which closes the IPC channel. If the launcher died
 * while this program was still loading, we missed that event, but the parent pid has changed.
 */
function stopWithBootstrap(pid: number, onStop: () => void): void {
  if (pid === process.ppid) {
    process.on('disconnect', onStop);
    // A listener on the channel keeps the event loop alive, so we unref it to allow an orderly stop.
    process.channel?.unref();
    if (!process.connected) onStop();
  } else if (!isAlive(pid)) {
    // If the launcher is alive but isn't our parent, then an ancestor was started by it and we only inherited the
    // variable.
    onStop();
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return errorCode(error) === 'EPERM'; // It exists, but belongs to another user.
  }
}

async function runFetchEmbedder(args: string[]): Promise<void> {
  const values = readOptions(args, { to: { type: 'string' } });
  if (await printHelpIfRequested(values)) return;
  const { fetchEmbedder } = await import('./service/fetch-embedder.ts');
  await fetchEmbedder(typeof values.to === 'string' ? values.to : null, createHost());
}

async function runDemoVendor(args: string[]): Promise<void> {
  const values = readOptions(args, { port: { type: 'string', default: '0' }, host: { type: 'string', default: '127.0.0.1' } });
  if (await printHelpIfRequested(values)) return;
  const { stopping } = createHost();
  const host = String(values.host);
  const port = values.port === '' ? Number.NaN : Number(values.port);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new StartError('--port must be a whole number from 0 to 65535');
  const { createDemoVendor } = await import('./demo-vendor/server.ts');
  const vendor = await createDemoVendor({ host, port }).catch((cause: unknown) => {
    throw new StartError(`the demo vendor cannot listen on ${host}:${port}: ${errorMessage(cause)}`, { cause });
  });
  write(`The demo vendor is listening at ${vendor.url}\n`);
  await untilAborted(stopping);
  await vendor.close();
}
