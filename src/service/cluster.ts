/**
 * A set of API processes behind one port (`GATEWAY_WORKERS`). The parent answers no call: it accepts connections and deals them out in
 * turn, so that a caller's kept connections spread, and it keeps the set at its size.
 *
 * - The first member starts alone: it brings the schema up to date, makes the admin token and the first key, does the durable work. A start
 *   that fails there ends the whole start with its reason.
 * - A member that dies is replaced, after growing pauses. Its journal is adopted by a sibling (journal/recover.ts). One that never comes up
 *   in `startTries` tries ends the service with its reason.
 * - At a stop all members stop in order, each within its own limits; then the demo vendor. A member whose parent is killed stops in order too.
 * - What members write on standard output comes out of the parent, in whole lines.
 */
import type { Worker } from 'node:cluster';
import cluster from 'node:cluster';
import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Role } from '../app.ts';
import { announceAddress } from '../cli/addresses.ts';
import type { Config } from '../config/config.ts';
import { ConfigError } from '../config/config.ts';
import { type ConfigSource, loadConfig, readConfigSource } from '../config/load.ts';
import type { LogOutput } from '../observability/log-output.ts';
import { createLogger, standardOutput } from '../observability/logger.ts';
import { type ConfigBasis, type MemberMessage, memberMessage, type ParentMessage } from './cluster-messages.ts';
import { lendDemoVendor } from './demo-vendor-config.ts';
import type { ServiceHost } from './service-host.ts';
import { orStartError, StartError } from './start-error.ts';

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
/** More than all limits of a member's own stop together. */
const stopLimitMs = 40_000;
const startTries = 5;
const shortestPauseMs = 500;
const longestPauseMs = 15_000;
/** A member that lived for so long was well: its end begins a new count. */
const wellMs = 60_000;
const longestLine = 1_048_576;
/** How much of what a member says on standard error is kept as the reason of its end. */
const longestReason = 4_096;

/** How a member ended. */
interface Ending {
  readonly wasUp: boolean;
  readonly livedMs: number;
  readonly reason: string;
}

interface Member {
  readonly worker: Worker;
  /** Resolves with its address, or null when it ended before it had one. */
  readonly up: Promise<string | null>;
  readonly ended: Promise<Ending>;
}

export interface SetStart {
  readonly role: Role;
  readonly source: ConfigSource;
  readonly config: Config;
  readonly host: ServiceHost;
}

/** Runs the set until the process is told to stop. Throws StartError when it cannot start, or cannot go on. */
export async function runProcessSet({ role, source, config, host }: SetStart): Promise<void> {
  if (!cluster.isPrimary) throw new StartError('GATEWAY_WORKERS: above 1 it cannot be used inside of another cluster of Node processes');
  const output = standardOutput();
  const logger = createLogger({ level: config.server.logLevel, destination: output });
  const demoVendor = lendDemoVendor();
  const dataDir = resolve(config.server.dataDir);
  const members = new Map<number, Member>();
  const count = config.server.workers;
  let basis = basisOf(source, await demoVendor.urlFor(config));
  let address = '';
  let withdraw = async (): Promise<void> => undefined;
  /** Told to stop, or about to end for a reason of its own: nobody is replaced any more. */
  const ending = new AbortController();
  const isOver = AbortSignal.any([host.stopping, ending.signal]);

  cluster.setupPrimary({ exec: main, args: ['member', role], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  cluster.schedulingPolicy = cluster.SCHED_RR;

  const begin = async (place: number, isFirst = false): Promise<Member> => {
    const member = startMember({ place, isFirst, basis, output, writeError: host.writeError });
    members.set(place, member);
    const url = await member.up;
    if (url !== null && url !== address) {
      // Also when all had died and the system chose another port for `PORT=0`.
      address = url;
      await withdraw();
      withdraw = await orStartError(`${dataDir}/addresses cannot be written`, announceAddress(dataDir, url));
    }
    return member;
  };

  /** Rejects when this place cannot be filled. */
  const keepFilled = async (place: number, first: Promise<Member>): Promise<void> => {
    let member = await first;
    let failures = 0;
    for (let starts = 0; ; ) {
      const { wasUp, livedMs, reason } = await member.ended;
      if (isOver.aborted) return;
      failures = wasUp && livedMs > wellMs ? 1 : failures + 1;
      starts = wasUp ? 0 : starts + 1;
      if (starts >= startTries) throw new StartError(`an API process did not start ${startTries} times; the last time: ${reason}`);
      const pauseMs = Math.min(longestPauseMs, shortestPauseMs * 2 ** Math.min(failures - 1, 10));
      logger.error({ process: place, reason, pauseMs }, wasUp ? 'an API process died; it is replaced' : 'an API process did not start');
      await sleep(pauseMs, undefined, { signal: isOver }).catch(() => undefined); // Rejects when stopping.
      if (isOver.aborted) return;
      member = await begin(place);
      if ((await member.up) !== null) logger.info({ process: place }, 'an API process was replaced');
    }
  };

  const reload = async (): Promise<void> => {
    try {
      const next = readConfigSource(host.env, role);
      basis = basisOf(next, await demoVendor.urlFor(loadConfig(next)));
    } catch (error) {
      const why = error instanceof ConfigError ? { faults: error.faults } : { error };
      return logger.error(why, 'the configuration has faults; the old one stays in force');
    }
    for (const { worker } of members.values()) tell(worker, { kind: 'reload', basis });
  };

  const signalStop = (): void => {
    for (const { worker } of members.values()) worker.process.kill('SIGTERM');
  };
  host.stopping.addEventListener('abort', signalStop, { once: true });
  // A second signal exits at once (main.ts): the members get theirs too. After any other sudden end they stop in order.
  process.once('exit', signalStop);
  try {
    const first = await begin(1, true);
    if (host.stopping.aborted) return;
    if (address === '') throw new StartError((await first.ended).reason);
    const others = Array.from({ length: count - 1 }, (_, index) => begin(index + 2));
    await Promise.all(others);
    if (host.stopping.aborted) return;
    logger.info({ url: address, role, processes: count }, 'listening');
    host.onReload(() => void reload());
    const filled = [Promise.resolve(first), ...others].map((member, index) => keepFilled(index + 1, member));
    await Promise.race([Promise.all(filled), aborted(host.stopping)]);
  } finally {
    ending.abort();
    logger.info({}, 'stopping');
    if (!host.stopping.aborted) signalStop();
    await Promise.all([...members.values()].map(untilEnded));
    process.off('exit', signalStop);
    await withdraw();
    await demoVendor.stop();
  }
}

function basisOf({ fileText, fileName }: ConfigSource, demoUrl: string | null): ConfigBasis {
  return { fileText, fileName, demoUrl };
}

interface MemberStart {
  readonly place: number;
  readonly isFirst: boolean;
  readonly basis: ConfigBasis;
  readonly output: LogOutput;
  readonly writeError: (text: string) => void;
}

function startMember({ place, isFirst, basis, output, writeError }: MemberStart): Member {
  const startedAt = performance.now();
  const worker = cluster.fork();
  let said = '';
  let isUp = false;
  // One that cannot even be forked; its `close` follows.
  worker.on('error', (error) => {
    said += `${error}\n`;
  });
  const { stdout, stderr } = worker.process;
  if (stdout) passLines(stdout, output);
  stderr?.setEncoding('utf8').on('data', (text: string) => {
    if (isUp) writeError(text);
    else said = (said + text).slice(-longestReason);
  });
  tell(worker, { kind: 'begin', place, isFirst, basis });
  // `close` comes when all that it said has been read.
  const ended = new Promise<Ending>((done) => {
    worker.process.once('close', (code, signal) => {
      done({ wasUp: isUp, livedMs: performance.now() - startedAt, reason: reasonIn(said) ?? `it ended with ${signal ?? code}` });
    });
  });
  const reported = new Promise<string>((done) => {
    worker.on('message', (data: unknown) => {
      const { url }: MemberMessage = memberMessage.parse(data);
      isUp = true;
      writeError(said);
      said = '';
      done(url);
    });
  });
  return { worker, ended, up: Promise.race([reported, ended.then(() => null)]) };
}

/** Whole lines, since several processes write them. */
function passLines(from: Readable, output: LogOutput): void {
  let rest = '';
  from.setEncoding('utf8').on('data', (text: string) => {
    rest += text;
    const end = rest.length > longestLine ? rest.length : rest.lastIndexOf('\n') + 1;
    if (end > 0) output.write(rest.slice(0, end));
    rest = rest.slice(end);
  });
  from.once('end', () => output.write(rest));
}

/** What a process said at its end: our own sentence (main.ts), else the error that nobody caught. */
function reasonIn(said: string): string | null {
  return /^gateway: (.+)$/m.exec(said)?.[1] ?? /^\w*Error\b.*$/m.exec(said)?.[0] ?? null;
}

function tell({ process: child }: Worker, message: ParentMessage): void {
  // One that is gone needs no telling: its end is noticed elsewhere.
  if (child.connected) child.send(message, () => undefined);
}

/** After it was told to stop. */
async function untilEnded({ worker, ended }: Member): Promise<void> {
  const limit = setTimeout(() => worker.process.kill('SIGKILL'), stopLimitMs);
  await ended;
  clearTimeout(limit);
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done();
    else signal.addEventListener('abort', () => done(), { once: true });
  });
}
