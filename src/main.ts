#!/usr/bin/env node
/**
 * The command line: `gateway start | serve | worker | migrate | check-config | vendors | demo-vendor | fetch-embedder |
 * codec-server`, and the commands in `cli/`. The exit status is 0 after an orderly stop and 1 after an error. Errors
 * are printed to standard error as a single line.
 */
import { isatty } from 'node:tty';
import type { ParseArgsConfig } from 'node:util';
import { type Config, ConfigError } from './config/config.ts';
import { parseOptions } from './config/parse-options.ts';
import { errorCode, errorMessage } from './core/error-messages.ts';
import { untilAborted } from './core/time-limit.ts';
import { setV8Flags } from './core/v8-flags.ts';
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
  fetch-embedder  fetch the files of the local embedder [--to FOLDER] [--model NAME]
  codec-server    decode payloads in the Temporal UI for people who have the admin token
  payload-key     show which payload keys are still needed, or rotate TEMPORAL_PAYLOAD_KEY

Commands that call a running service:

${(await import('./cli/commands.ts')).overview()}
Run gateway <command> --help for details.
`;

/**
 * Ignore a second signal within this time. Supervisors that signal the whole process group can deliver the same signal
 * twice.
 */
const secondSignalMs = 500;

/** If stopping takes longer than this, print how to force it. */
const slowStopMs = 1_000;

setV8Flags();
process.exitCode = await run(process.argv.slice(2));
// The service has stopped, so don't let a forgotten timer or socket keep the process alive.
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
        if (!process.connected)
          throw new StartError('do not run gateway embedder yourself: gateway start, serve and worker run it when they need it');
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

function prepareOutput(): void {
  process.channel?.unref();
  // The reader of a pipe can close it early, as in `gateway catalog list | head`. That isn't an error.
  process.stdout.on('error', () => process.exit(process.exitCode ?? 0));
}

/**
 * Loads the service on demand. It includes Temporal, and commands that only call a running service would spend most of
 * their time on loading it.
 */
function loadService(): Promise<typeof import('./service/service.ts')> {
  return import('./service/service.ts');
}

/**
 * Stop signals take effect immediately. The database rolls back the running migration, and the next run rebuilds an
 * unfinished index.
 */
async function migrate(): Promise<void> {
  const host = createHost();
  host.stopping.addEventListener('abort', () => process.exit(1), { once: true });
  await (await loadService()).runMigrations(host);
}

async function checkProviders(config: Config) {
  return (await import('./app/check-providers.ts')).checkProviders(config);
}

type OptionTypes = NonNullable<ParseArgsConfig['options']>;

/** Parses the options of a command. Throws ConfigError for an unknown argument. */
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
 * Creates the interface between the service and this process. The service stops on SIGTERM or SIGINT, and when its
 * terminal is closed or its launcher dies. SIGHUP reloads the configuration, unless the terminal was closed.
 */
function createHost(): ServiceHost {
  // Ignore write errors, which mean that the terminal was closed or that the reader of our output has exited. Neither
  // is a reason to stop serving calls.
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
  // SIGHUP also arrives when the terminal is closed. In that case, none of its file descriptors is a TTY any more.
  const hasLostTerminal = (): boolean => terminals.length > 0 && !terminals.some((fd) => isatty(fd));
  process.on('SIGHUP', () => (hasLostTerminal() ? onStop() : reload()));
  return {
    ...{ env: process.env, write, writeError, isTerminal: process.stdout.isTTY === true },
    stopping: stop.signal,
    onReload: (action) => (reload = action),
    clusterWorker: null,
  };
}

/** Runs an API process of a cluster (service/cluster.ts). It ignores SIGHUP, because the parent handles reloads. */
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
 * while we were loading there's no event, but our parent process has changed.
 */
function stopWithBootstrap(pid: number, onStop: () => void): void {
  if (pid === process.ppid) {
    process.on('disconnect', onStop);
    // The listener would keep the event loop alive through the IPC channel, so unref the channel.
    process.channel?.unref();
    if (!process.connected) onStop();
  } else if (!isAlive(pid)) {
    // The launcher has died, so stop. If it's alive but isn't our parent, one of its children has passed the variable
    // on to us, and its exit doesn't concern us.
    onStop();
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return errorCode(error) === 'EPERM'; // EPERM means that the process exists but belongs to another user.
  }
}

async function runFetchEmbedder(args: string[]): Promise<void> {
  const values = readOptions(args, { to: { type: 'string' }, model: { type: 'string' } });
  if (await printHelpIfRequested(values)) return;
  const { fetchEmbedder } = await import('./service/fetch-embedder.ts');
  const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
  await fetchEmbedder({ folder: text(values.to), model: text(values.model) }, createHost());
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
