/**
 * One seeded run of the journal: the real journal, drain and recovery on a file system that fills up and fails, with a store in memory that goes
 * down and loses responses, and processes that die with a torn record at the end of their journal.
 *
 * At the end the faults stop: each settled call is stored once, as it was settled, and each call that a death interrupted once as `unknown`.
 */
import { appendFile, cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SettledCall } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import { createDrain, type Drain } from '../../src/journal/drain.ts';
import { createJournal, type Journal } from '../../src/journal/journal.ts';
import { encodeRecord } from '../../src/journal/record.ts';
import { createRecovery } from '../../src/journal/recover.ts';
import { createBrokenDisk } from '../journal/broken-disk.ts';
import { attemptStart, connectionError, emptyDatabase, factsOf, noon, settledCall, withText } from '../journal/calls.ts';
import { createRandom } from '../support/random.ts';
import { eachCallIsStoredOnce, InvariantError, orderIsKept } from './invariants.ts';
import { createWorld, type Host } from './world.ts';

interface JournalProcess extends Host {
  readonly dataDir: string;
  journal: Journal | null;
  drain: Drain | null;
  readonly open: Set<string>;
  /** In the order in which the journal confirmed them. */
  readonly confirmed: string[];
  readonly committed: Set<string>;
}

export type JournalRun = Readonly<Record<'stored' | 'deaths' | 'unknown', number>>;

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** Throws when an invariant is broken. */
export async function runJournal(seed: number, trace: (line: string) => void = () => undefined): Promise<JournalRun> {
  const folder = await mkdtemp(join(tmpdir(), 'gateway-simulation-'));
  try {
    return await simulate(seed, folder, trace);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function simulate(seed: number, folder: string, trace: (line: string) => void): Promise<JournalRun> {
  const random = createRandom(seed);
  const world = createWorld(random, true);
  const disk = createBrokenDisk();
  const database = emptyDatabase();
  const clock = { now: () => noon + Math.floor(world.now()) };
  const stored = new Map<string, string>();
  const processes: JournalProcess[] = [];
  const unknown: string[] = [];
  const storeLoss = random.pick([0, 0, 0.2]);
  const hasDiskFaults = random.chance(0.6);
  const segmentBytes = random.pick([1_500, 4_000, 20_000]);
  let deaths = 0;
  let parkedAtDeath = 0;
  let areFaultsOver = false;

  const note = (line: string): void => trace(`${(world.now() / 1_000).toFixed(3)} ${line}`);

  const store = async (_tx: unknown, calls: readonly SettledCall[]): Promise<void> => {
    if (!areFaultsOver && random.chance(storeLoss / 2)) throw connectionError();
    for (const { metadata, result } of calls) if (!stored.has(metadata.id)) stored.set(metadata.id, result.outcome);
    // The transaction was committed, and the response is lost.
    if (!areFaultsOver && random.chance(storeLoss)) throw connectionError();
  };

  const start = (): JournalProcess => {
    const dataDir = join(folder, `process-${processes.length}`);
    const host: JournalProcess = {
      ...{ name: dataDir, isAlive: true, isCutOff: false, unanswered: 0, dataDir, journal: null, drain: null },
      ...{ open: new Set(), confirmed: [], committed: new Set() },
    };
    processes.push(host);
    const options = { dataDir, clock, logger: silent };
    const boot = async (): Promise<void> => {
      const journal = await createJournal({ ...options, files: disk.files, sync: random.chance(0.3), segmentBytes, ballastBytes: 3_000 });
      host.journal = journal;
      host.drain = createDrain({
        ...{ ...options, journal, database, store, intervalMs: random.pick([20, 100]), recentBytes: random.pick([0, 3_000, 1_000_000]) },
        onStored(calls) {
          for (const { metadata } of calls) {
            if (host.committed.has(metadata.id)) throw new InvariantError(`committed twice: ${metadata.id}`);
            host.committed.add(metadata.id);
          }
        },
      });
      host.drain.start();
    };
    world.after(0, host, () => void boot());
    return host;
  };

  const call = async (host: JournalProcess): Promise<void> => {
    const { journal } = host;
    if (!journal) return;
    const metadata = factsOf({ id: newId(clock.now()), startedAt: clock.now() });
    const { id } = metadata;
    const settle = async (): Promise<void> => {
      host.open.delete(id);
      const content = random.chance(0.5) ? withText('x'.repeat(random.between(0, 3_000))) : null;
      await journal.settle(settledCall({ metadata, content }));
      host.confirmed.push(id);
      note(`settled ${id}`);
    };
    if (random.chance(0.1)) return settle();
    try {
      await journal.open(metadata, attemptStart);
    } catch {
      return note(`refused ${id}`);
    }
    host.open.add(id);
    note(`opened ${id}`);
    if (random.chance(0.2)) await journal.attempt(id, { ...attemptStart, n: 2 }).catch(() => undefined);
    world.after(random.between(0, random.chance(0.1) ? 3_000 : 200), host, () => void settle());
  };

  /** The files of the process as they are now, with a torn record at the end, are recovered in another folder. */
  const kill = (host: JournalProcess): void => {
    const { journal } = host;
    if (!journal) return;
    deaths += 1;
    host.isAlive = false;
    parkedAtDeath += journal.state().parkedCalls;
    unknown.push(...host.open);
    note(`${host.open.size} calls are interrupted`);
    const doctor: Host = { name: 'recovery', isAlive: true, isCutOff: false, unanswered: 0 };
    world.after(0, doctor, () => void recover(host, journal, doctor));
  };

  const recover = async ({ dataDir }: JournalProcess, { id }: Journal, doctor: Host): Promise<void> => {
    const copy = `${dataDir}.dead`;
    const dead = join(copy, 'journal', id);
    await cp(join(dataDir, 'journal', id), dead, { recursive: true, filter: (path) => !path.endsWith('owner.lock') });
    const last = (await readdir(dead))
      .filter((name) => name.startsWith('segment-'))
      .toSorted()
      .at(-1);
    const torn = Buffer.concat(encodeRecord({ kind: 'settled', call: settledCall() }));
    if (last && random.chance(0.7)) await appendFile(join(dead, last), torn.subarray(0, random.between(1, torn.length - 1)));
    const recovery = createRecovery({ dataDir: copy, ownId: '', database, store, logger: silent, estimateCost: () => 7 });
    const repeat = async (): Promise<void> => {
      await recovery.recover().catch(() => undefined);
      if ((await readdir(join(copy, 'journal'))).length > 0) world.after(500, doctor, () => void repeat());
      else await recovery.stop();
    };
    await repeat();
  };

  const fault = (): void => {
    const kind = random.pick(['full', 'failing', 'healthy', 'down', 'up', 'healthy', 'up']);
    note(kind);
    if (kind === 'down') database.fail(connectionError());
    if (kind === 'up') database.fail(null);
    if (kind === 'healthy' || !hasDiskFaults) heal();
    else if (kind === 'full') disk.leave(random.between(0, 5_000));
    else if (kind === 'failing') {
      disk.fail('EIO');
      disk.failTruncate(random.chance(0.3));
    }
  };
  const heal = (): void => {
    disk.leave(null);
    disk.fail(null);
    disk.failTruncate(false);
  };

  const runUntil = async (untilMs: number): Promise<void> => {
    while ((await world.step(untilMs)) !== undefined);
  };

  const check = (): void => {
    const ids = [...stored.keys()];
    const confirmed = processes.flatMap((each) => each.confirmed);
    const lost = confirmed.filter((id) => !stored.has(id));
    // Calls that wait in memory while nothing can be written are lost with their process.
    if (lost.length > parkedAtDeath) eachCallIsStoredOnce(confirmed, ids);
    const changed = confirmed.filter((id) => stored.has(id) && stored.get(id) !== 'ok');
    if (changed.length > parkedAtDeath) throw new InvariantError(`settled calls stored as unknown: ${changed.join(', ')}`);
    eachCallIsStoredOnce(
      unknown.filter((id) => !confirmed.includes(id)),
      ids,
    );
    if (!hasDiskFaults)
      for (const each of processes)
        orderIsKept(
          each.confirmed.filter((id) => each.committed.has(id)),
          ids,
        );
    for (const { isAlive, journal, committed, confirmed: settled } of processes) {
      if (!isAlive) continue;
      const state = journal?.state();
      if (state?.openCalls || state?.parkedCalls || state?.bytes) throw new InvariantError(`not drained: ${JSON.stringify(state)}`);
      eachCallIsStoredOnce(settled, [...committed]);
    }
  };

  /** Closes the files, also of dead processes. */
  const close = async (): Promise<void> => {
    heal();
    database.fail(null);
    for (const each of processes)
      world.after(0, { ...each, isAlive: true }, () => void each.drain?.stop().then(() => each.journal?.close()));
    await runUntil(world.now() + 10_000);
  };

  const run = async (): Promise<JournalRun> => {
    let current = start();
    const durationMs = random.between(300, 3_000);
    for (let at = 50; at < durationMs; at += random.between(1, 60))
      world.after(at, null, () => world.after(0, current, () => void call(current)));
    for (let n = random.between(0, 8); n > 0; n -= 1) world.after(random.between(0, durationMs), null, fault);
    for (let n = random.between(0, 2); n > 0; n -= 1) {
      world.after(random.between(60, durationMs), null, () => {
        if (!current.journal) return;
        kill(current);
        heal();
        current = start();
      });
    }
    await runUntil(durationMs);
    areFaultsOver = true;
    heal();
    database.fail(null);
    await runUntil(durationMs + 30_000);

    check();
    return { stored: stored.size, deaths, unknown: unknown.length };
  };

  return world.rule(() => run().finally(close));
}
