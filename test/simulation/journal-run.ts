/**
 * A run of the journal with a seed. Several processes on one machine use the real journal, drain and recovery. The disk
 * fills up, fails and loses power. The store is slow, goes down, loses responses and rejects records. Projects are
 * locked for seconds. Processes die while they're writing a record, are stopped, and recover each other's journals.
 *
 * At the end there are no more faults. Every confirmed call has to be stored by then, and nothing can be left on disk.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SettledCall } from '../../src/core/call.ts';
import type { Database, Queries } from '../../src/db/database.ts';
import { createDrain, type Drain } from '../../src/journal/drain.ts';
import { createJournal, type Journal } from '../../src/journal/journal.ts';
import { encodeRecord } from '../../src/journal/record.ts';
import { createRecovery, type Recovery, recoverOnce } from '../../src/journal/recover.ts';
import { attemptStart, connectionError, factsOf, noon, settledCall, withText } from '../journal/calls.ts';
import { createRandom, type Random } from '../support/random.ts';
import {
  eachCallIsReportedOnce,
  eachCallIsStoredOnce,
  InvariantError,
  journalIsEmpty,
  orderIsKept,
  rejectedRecordsAreKept,
  settledCallsAreUnchanged,
} from './invariants.ts';
import { createMemoryDisk, type SimulatedDisk } from './memory-disk.ts';
import { createProjectLocks } from './project-locks.ts';
import { createRealDisk } from './real-disk.ts';
import { createWorld, type Host, type World } from './world.ts';

interface JournalProcess extends Host {
  journal: Journal | null;
  drain: Drain | null;
  recovery: Recovery | null;
  isStopping: boolean;
  readonly open: Set<string>;
  /** In the order in which the journal confirmed them. */
  readonly confirmed: string[];
  /** Calls that the drain has reported as stored. */
  readonly reported: string[];
}

export type JournalRun = Readonly<Record<'stored' | 'deaths' | 'unknown' | 'rejected' | 'lost' | 'lockTimeouts', number>>;
type Trace = ((line: string) => void) | undefined;

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const calmMs = 40_000;

/** Runs on a disk in memory. Throws if an invariant is broken. */
export async function runJournal(seed: number, trace?: (line: string) => void): Promise<JournalRun> {
  const random = createRandom(seed);
  const world = createWorld(random);
  const disk = createMemoryDisk(world);
  return world.rule(() => createRun({ seed, random, world, disk, dataDir: '/data', failPower: disk.failPower, trace }).run());
}

/** Does the same on real files, but without power failures. */
export async function runJournalOnFiles(seed: number, trace?: (line: string) => void): Promise<JournalRun> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-simulation-'));
  const random = createRandom(seed);
  const world = createWorld(random, true);
  const disk = createRealDisk(dataDir);
  try {
    return await world.rule(() => createRun({ seed, random, world, disk, dataDir, onDeath: disk.releaseLocks, trace }).run());
  } finally {
    disk.releaseLocks();
    await disk.closeFiles();
    await rm(dataDir, { recursive: true, force: true });
  }
}

interface RunOptions {
  readonly seed: number;
  readonly random: Random;
  readonly world: World;
  readonly disk: SimulatedDisk;
  readonly dataDir: string;
  readonly failPower?: () => void;
  readonly onDeath?: () => void;
  readonly trace: Trace;
}

function createRun({ seed, random, world, disk, dataDir, failPower, onDeath, trace }: RunOptions) {
  /** In every third run we only leave room for a few parked calls, so that some calls are lost. */
  const parkedBytes = seed % 3 === 0 ? 3_000 : 1_000_000;
  /** In every fourth run, projects are locked. */
  const locks = createProjectLocks(world, seed % 4 === 0 ? createRandom(seed) : null);
  const clock = { now: () => noon + Math.floor(world.now()) };
  const processes: JournalProcess[] = [];
  const stored = new Map<string, SettledCall>();
  /** Transactions in progress, with the calls that they store. */
  const batches = new WeakMap<Queries, SettledCall[]>();
  const hasDiskFaults = random.chance(0.5);
  const sync = random.chance(0.3);
  const segmentBytes = random.pick([1_500, 4_000, 20_000]);
  const poisonShare = random.pick([0, 0, 0.05]);
  /** The calls that the database rejects with their content, with any of their text, or in any form. */
  const poison = new Map<string, 'content' | 'text' | 'everything'>();
  /** Confirmed calls that a power failure may have lost, because writes are not flushed. */
  const mayBeLost = new Set<string>();
  let isDown = false;
  let calls = 0;
  let deaths = 0;
  let parkedAtDeath = 0;
  const lost = new Set<string>();
  let rejected = 0;

  const note = (line: string): void => trace?.(`${(world.now() / 1_000).toFixed(3)} ${line}`);

  const isRejected = ({ metadata, content }: SettledCall): boolean => {
    const kind = poison.get(metadata.id);
    if (kind === 'content') return content !== null;
    return kind === 'everything' || (kind === 'text' && (content !== null || metadata.plan.length > 0));
  };

  const store = async (tx: Queries, batch: readonly SettledCall[]): Promise<void> => {
    if (batch.some(isRejected)) throw Object.assign(new Error('invalid input'), { code: '22P02' });
    batches.get(tx)?.push(...batch);
  };

  const commit = (batch: readonly SettledCall[]): void => {
    if (isDown) throw connectionError();
    for (const call of batch) if (!stored.has(call.metadata.id)) stored.set(call.metadata.id, call);
  };

  const databaseOf = (host: Host): Database => ({
    kind: 'server',
    async query() {
      if (isDown) throw connectionError();
      return [];
    },
    async transaction(work, settings) {
      if (isDown) throw connectionError();
      const batch: SettledCall[] = [];
      const tx: Queries = {
        // The journal itself only executes one statement, which locks the projects of the batch.
        async query(_text, [locked] = []) {
          await locks.wait(locked as string[], settings);
          return [];
        },
      };
      batches.set(tx, batch);
      const result = await work(tx);
      await world.request(host, () => commit(batch));
      note(`${host.name} stores ${batch.length}`);
      return result;
    },
    runWithoutTimeout: () => Promise.reject(new Error('not part of the model')),
    listen: () => Promise.reject(new Error('not part of the model')),
    close: async () => undefined,
  });

  const start = (): void => {
    const host: JournalProcess = {
      ...{ name: `process-${processes.length + 1}`, isAlive: true, isCutOff: false, unanswered: 0, isStopping: false },
      ...{ journal: null, drain: null, recovery: null, open: new Set(), confirmed: [], reported: [] },
    };
    processes.push(host);
    const shared = { dataDir, database: databaseOf(host), store, logger: silent, files: disk.filesOf(host) };
    const boot = async (): Promise<void> => {
      const onLost = ({ metadata }: SettledCall): unknown => lost.add(metadata.id);
      const journal = await createJournal({ ...shared, clock, sync, segmentBytes, ballastBytes: 3_000, parkedBytes, onLost });
      host.journal = journal;
      host.drain = createDrain({
        ...{ ...shared, journal, clock, minAsideMs: 0 },
        ...{ intervalMs: random.pick([20, 100]), recentBytes: random.pick([0, 3_000, 1_000_000]) },
        onStored: (batch) => host.reported.push(...batch.map(({ metadata }) => metadata.id)),
        onRejected: () => {
          rejected += 1;
        },
      });
      host.recovery = createRecovery({ ...shared, ownId: journal.id, estimateCost: () => 7 });
      host.drain.start();
      host.recovery.start();
      note(`${host.name} starts`);
    };
    const giveUp = (): void => {
      host.isAlive = false;
      onDeath?.();
      world.after(1_000, null, start);
    };
    world.after(0, host, () => void boot().catch(giveUp));
  };

  const call = async (host: JournalProcess): Promise<void> => {
    const { journal } = host;
    if (!journal || host.isStopping) return;
    calls += 1;
    const id = `01900000-0000-7000-8000-${String(calls).padStart(12, '0')}`;
    const metadata = factsOf({ id, startedAt: clock.now(), projectId: locks.projectOf(calls) });
    if (random.chance(poisonShare)) poison.set(id, random.pick(['content', 'text', 'everything']));
    const settle = async (): Promise<void> => {
      const content = poison.has(id) || random.chance(0.5) ? withText('x'.repeat(random.between(0, 3_000))) : null;
      await journal.settle(settledCall({ metadata, content }));
      host.open.delete(id);
      host.confirmed.push(id);
      note(`${host.name} settled ${id}`);
    };
    if (random.chance(0.1)) return settle();
    try {
      await journal.open(metadata, attemptStart);
    } catch {
      return note(`${host.name} refused ${id}`);
    }
    host.open.add(id);
    note(`${host.name} opened ${id}`);
    if (random.chance(0.2)) await journal.attempt(id, { ...attemptStart, n: 2 }).catch(() => undefined);
    world.after(random.between(0, random.chance(0.1) ? 3_000 : 200), host, () => void settle());
  };

  const die = (host: JournalProcess): void => {
    deaths += 1;
    host.isAlive = false;
    parkedAtDeath += host.journal?.state().parkedCalls ?? 0;
    note(`${host.name} dies with ${host.open.size} open calls`);
    onDeath?.();
  };

  /** A kill -9, possibly in the middle of a write. */
  const kill = (host: JournalProcess): void => {
    die(host);
    const segment = host.journal?.segments().at(-1);
    const torn = Buffer.concat(encodeRecord({ kind: 'settled', call: settledCall() }));
    const bytes = torn.subarray(0, random.between(1, torn.length - 1));
    if (segment && random.chance(0.5))
      world.after(0, { ...host, isAlive: true }, () => void disk.tear(segment.file, bytes).catch(() => undefined));
    world.after(random.between(0, 2_000), null, start);
  };

  /** All processes of the machine die, and everything that was not flushed is lost. */
  const losePower = (): void => {
    note('power failure');
    for (const host of alive()) die(host);
    const unstored = processes.flatMap(({ confirmed, open }) => [...confirmed, ...open]).filter((id) => !stored.has(id));
    if (!sync) for (const id of unstored) mayBeLost.add(id);
    failPower?.();
    world.after(random.between(0, 2_000), null, start);
  };

  /** Stops like `app/call-recording.ts` does once its calls have ended. */
  const stop = (host: JournalProcess): void => {
    const { journal, drain, recovery } = host;
    if (!journal || !drain || !recovery) return;
    note(`${host.name} stops`);
    host.isStopping = true;
    const finish = async (): Promise<void> => {
      await recovery.stop();
      await drain.stop();
      await journal.close({ keepFolder: true });
      await recoverOnce({ dataDir, database: databaseOf(host), store, logger: silent, files: disk.filesOf(host) }, journal.id);
      host.isAlive = false;
      onDeath?.();
      note(`${host.name} has stopped`);
    };
    world.after(4_000, host, () => void finish());
    world.after(random.between(0, 2_000), null, start);
  };

  const alive = (): JournalProcess[] => processes.filter(({ isAlive }) => isAlive);
  const pickAlive = (): JournalProcess | undefined => alive()[random.below(alive().length)];

  const fault = (): void => {
    const kind = random.pick(['full', 'failing', 'healthy', 'down', 'up', 'healthy', 'up']);
    note(kind);
    if (kind === 'down') isDown = true;
    else if (kind === 'up') isDown = false;
    else if (kind === 'healthy' || !hasDiskFaults) heal();
    else if (kind === 'full') disk.leave(random.between(0, 5_000));
    else {
      disk.fail('EIO');
      disk.failTruncate(random.chance(0.3));
    }
  };
  const heal = (): void => {
    disk.leave(null);
    disk.fail(null);
    disk.failTruncate(false);
  };

  const incident = (): void => {
    const host = pickAlive();
    const kind = random.pick(['kill', 'kill', 'stop', 'start', 'power']);
    if (kind === 'start') start();
    else if (kind === 'power' && failPower) losePower();
    else if (host?.journal && !host.isStopping) (kind === 'stop' ? stop : kill)(host);
  };

  const runUntil = async (untilMs: number): Promise<void> => {
    while ((await world.step(untilMs)) !== undefined);
  };

  const check = async (): Promise<void> => {
    const ids = [...stored.keys()];
    const isKept = (id: string): boolean => !mayBeLost.has(id) && !lost.has(id);
    const accepted = processes.flatMap(({ confirmed, open }) => [...confirmed, ...open]).filter(isKept);
    const confirmed = processes.flatMap((host) => host.confirmed).filter(isKept);
    const isGivenUp = (id: string): boolean => poison.get(id) === 'everything';
    // Calls that wait in memory because nothing can be written are lost together with their process.
    const isMissing = (id: string): boolean => !stored.has(id) && !isGivenUp(id);
    if (accepted.filter(isMissing).length > parkedAtDeath)
      eachCallIsStoredOnce(
        accepted.filter((id) => !isGivenUp(id)),
        ids,
      );
    const isChanged = (id: string): boolean => stored.has(id) && stored.get(id)?.result.outcome !== 'ok';
    if (confirmed.filter(isChanged).length > parkedAtDeath) settledCallsAreUnchanged(confirmed, stored);
    for (const host of processes) {
      eachCallIsReportedOnce(host.reported);
      // A lost call has already given its quota back, so storing it as well would count it twice.
      if (host.reported.some((id) => lost.has(id))) throw new InvariantError('a lost call was reported as stored');
      if (!hasDiskFaults)
        for (const projectId of locks.projectIds)
          orderIsKept(
            host.confirmed.filter((id) => host.reported.includes(id) && stored.get(id)?.metadata.projectId === projectId),
            ids,
          );
    }
    const paths = await disk.paths();
    if (!hasDiskFaults && deaths === 0)
      rejectedRecordsAreKept(
        confirmed.filter((id) => poison.has(id)),
        paths,
      );
    for (const { journal } of alive()) if (journal) journalIsEmpty(journal.state());
    const journals = alive().flatMap(({ journal }) => (journal ? [journal.folder] : []));
    const leftovers = paths.filter((path) => !path.includes('/quarantine/') && !journals.some((folder) => path.startsWith(`${folder}/`)));
    if (leftovers.length > 0) throw new InvariantError(`left on the disk: ${leftovers.join(', ')}`);
  };

  /** Closes the files and locks of the processes that are still alive. */
  const close = async (): Promise<void> => {
    for (const host of alive()) world.after(0, host, () => void closeProcess(host));
    await runUntil(world.now() + 10_000);
    for (const host of processes) host.isAlive = false;
    onDeath?.();
  };
  const closeProcess = async ({ recovery, drain, journal }: JournalProcess): Promise<void> => {
    await recovery?.stop();
    await drain?.stop();
    await journal?.close();
  };

  const run = async (): Promise<JournalRun> => {
    world.setFaults(
      random.pick([
        { loss: 0, delay: 0 },
        { loss: 0.1, delay: 0 },
        { loss: 0.05, delay: 0.05 },
      ]),
    );
    start();
    const durationMs = random.between(300, 3_000);
    for (let at = 50; at < durationMs; at += random.between(1, 60)) {
      world.after(at, null, () => {
        const host = pickAlive();
        if (host) world.after(0, host, () => void call(host));
      });
    }
    for (let n = random.between(0, 8); n > 0; n -= 1) world.after(random.between(0, durationMs), null, fault);
    for (let n = random.between(0, 3); n > 0; n -= 1) world.after(random.between(60, durationMs), null, incident);
    locks.schedule(durationMs);
    await runUntil(durationMs);
    world.setFaults({ loss: 0, delay: 0 });
    heal();
    isDown = false;
    note('calm');
    await runUntil(durationMs + calmMs / 2);
    // A journal that rejected calls accepts them again.
    for (const host of alive()) world.after(0, host, () => void call(host));
    const before = calls;
    await runUntil(durationMs + calmMs);
    const refused = alive().length - processes.flatMap(({ confirmed }) => confirmed).filter((id) => Number(id.slice(-12)) > before).length;
    if (refused > 0) throw new InvariantError(`${refused} calls are refused although nothing fails`);
    await check();
    const unknown = processes.reduce((sum, { open }) => sum + open.size, 0);
    return { stored: stored.size, deaths, unknown, rejected, lost: lost.size, lockTimeouts: locks.timeouts };
  };

  return { run: () => run().finally(close) };
}
