/** Tests how a subject is erased from the journal, i.e. from its segments and the quarantine. */

import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import { createQuarantine, deleteQuarantined } from '../../src/journal/quarantine.ts';
import { until } from '../support/until.ts';
import { createBrokenDisk } from './broken-disk.ts';
import { attemptStart, connectionError, factsOf, settledCall, withFolder, withText } from './calls.ts';
import { idsOf, withDrain } from './drain-helper.ts';

const about = (subject: string): { memory: { mode: 'write'; explicitWrite: false; subject: string } } => ({
  memory: { mode: 'write', explicitWrite: false, subject },
});
const correlation = { ...factsOf().correlation, taskId: 'task of Ada', iteration: 3 };

async function textOf(folder: string): Promise<string> {
  const names = (await readdir(folder)).filter((name) => name.startsWith('segment'));
  return (await Promise.all(names.map((name) => readFile(join(folder, name), 'latin1')))).join('');
}

test("doesn't store the subject or text of a running call whose end user was erased", () =>
  withDrain(async ({ journal, drain, batches }) => {
    const [ada, bob] = [factsOf({ ...about('Ada'), correlation }), factsOf(about('Bob'))];
    for (const metadata of [ada, bob]) await journal.open(metadata, attemptStart);
    expect(journal.redactSubject(({ memory }) => memory.subject === 'Ada')).toBe(1);
    expect(await textOf(journal.folder)).toContain('Ada');
    drain.start();
    expect(await drain.drainAndDelete()).toBe(true);
    // The `opened` records were copied forward, because both calls are open.
    const remaining = await textOf(journal.folder);
    expect(remaining).toContain(ada.id);
    expect(remaining).toContain('Bob');
    expect(remaining).not.toContain('Ada');
    const [attempt] = settledCall().result.attempts;
    if (!attempt) throw new Error('a settled call has an attempt');
    const attempts = [{ ...attempt, error: { reason: 'status', type: null, code: 'bad_value', message: 'bad value of Ada' } }];
    await journal.settle(settledCall({ metadata: ada, result: { attempts }, content: withText('text of Ada') }));
    expect(await textOf(journal.folder)).toContain(`{"kind":"settled","facts":{"id":"${ada.id}"`);
    expect(await textOf(journal.folder)).not.toContain('Ada');
    await journal.settle(settledCall({ metadata: bob, content: withText('text of Ada') }));
    await drain.waitUntilDrained();
    const [first, second] = batches.flat();
    expect(first).toMatchObject({ metadata: { memory: { subject: null }, correlation: { taskId: null, iteration: 3 } }, content: null });
    expect(first?.result.attempts[0]?.error).toEqual({ reason: 'status', type: null, code: 'bad_value', message: null });
    expect(second).toMatchObject({ metadata: { memory: { subject: 'Bob' } }, content: { request: Buffer.from('text of Ada') } });
  }));

test('drainAndDelete() returns true once all calls are stored and their files deleted', () =>
  withDrain(async ({ journal, drain, batches }) => {
    const writing = Promise.all(Array.from({ length: 50 }, () => journal.settle(settledCall({ content: withText('private') }))));
    expect(await drain.drainAndDelete()).toBe(true);
    await writing;
    expect(batches.flat()).toHaveLength(50);
    expect(await textOf(journal.folder)).not.toContain('private');
    expect(await drain.drainAndDelete()).toBe(true);
  }));

test('drainAndDelete() completes after calls were lost on a full disk', () => {
  const disk = createBrokenDisk();
  const lost: SettledCall[] = [];
  return withDrain(
    async ({ journal, drain, batches }) => {
      const calls = Array.from({ length: 12 }, () => settledCall());
      for (const { metadata } of calls) await journal.open(metadata, attemptStart);
      disk.fail('ENOSPC');
      for (const call of calls) await journal.settle(call);
      const { parkedCalls, lostCalls, openCalls } = journal.state();
      expect(lostCalls).toBeGreaterThan(0);
      expect(openCalls).toBe(parkedCalls);
      expect(idsOf([lost])).toEqual(calls.slice(0, lostCalls).map(({ metadata }) => metadata.id));
      disk.fail(null);
      await until('the journal accepts calls again', () => journal.state().accepting);
      drain.start();
      expect(await drain.drainAndDelete()).toBe(true);
      expect(idsOf(batches)).toEqual(calls.slice(lostCalls).map(({ metadata }) => metadata.id));
      expect(journal.state()).toMatchObject({ segments: 0, openCalls: 0 });
    },
    {
      files: disk.files,
      journalOptions: { files: disk.files, parkedBytes: 8_000, retryIntervalMs: 5, onLost: (call) => void lost.push(call) },
    },
  );
});

test('drainAndDelete() returns false during a database outage', () =>
  withDrain(async ({ journal, drain, database }) => {
    await journal.settle(settledCall({ content: withText('private') }));
    database.fail(connectionError());
    expect(await drain.drainAndDelete(50)).toBe(false);
    expect(await textOf(journal.folder)).toContain('private');
    database.fail(null);
    drain.start();
    expect(await drain.drainAndDelete()).toBe(true);
    await until('the text is deleted', async () => (await textOf(journal.folder)) === '');
  }));

test('erases only quarantined files that name the end user in the same project', () =>
  withFolder(async (dataDir) => {
    const folder = join(dataDir, 'journal', 'quarantine');
    const sha256 = createHash('sha256').update('Ada "the" ünique').digest('hex');
    expect(await deleteQuarantined(dataDir, 'p1', new Set([sha256]))).toBe(0);
    await mkdir(folder, { recursive: true });
    const record = (projectId: string, subject: string | null): string =>
      `\u0000\u0001${JSON.stringify({ metadata: { projectId, memory: { subject } } })}\u0002 cut`;
    await writeFile(join(folder, 'a.record'), record('p1', 'Ada "the" ünique'));
    await writeFile(join(folder, 'b.record'), record('p1', 'Bob'));
    await writeFile(join(folder, 'c.record'), record('p2', 'Ada "the" ünique'));
    await writeFile(join(folder, 'd.segment'), record('p1', null) + record('p1', 'Ada "the" ünique'));
    expect(await deleteQuarantined(dataDir, 'p1', new Set([sha256]))).toBe(2);
    expect((await readdir(folder)).sort()).toEqual(['b.record', 'c.record']);
    // A caller's text in an unreadable record: the name of the member is there, but the text has no end.
    await writeFile(join(folder, 'e.segment'), `{"subject":"${'x'.repeat(12e6)}${record('p1', 'Ada "the" ünique')}`);
    expect(await deleteQuarantined(dataDir, 'p1', new Set([sha256]))).toBe(1);
  }));

test("doesn't write records of erased end users to the quarantine", () =>
  withFolder(async (dataDir) => {
    const [ours, other] = [randomUUID(), randomUUID()];
    const quarantine = createQuarantine(dataDir, async (calls) =>
      calls.some(({ projectId, subject, startedAt }) => projectId === ours && subject === 'Ada "the"' && startedAt <= 1_000),
    );
    const record = (projectId: string, subject: string | null, startedAt: number): Buffer =>
      Buffer.from(`\u0001${JSON.stringify({ metadata: { id: 'x', startedAt, projectId, memory: { subject } } })}\u0002 cut`);
    const kept = [record(ours, 'Ada "the"', 1_001), record(ours, 'Bob', 5), record(other, 'Ada "the"', 5), record(ours, null, 5)];
    for (const raw of [...kept, record(ours, 'Ada "the"', 1_000)]) await quarantine.addRecord(null, raw);
    // The first subject is cut off, so the next quote starts a member of the following call.
    const torn = `{"startedAt":5,"projectId":"${other}","memory":{"subject":"B{"projectId":"${ours}","memory":{"subject":"Ada \\"the\\""}}`;
    await quarantine.addRecord(null, Buffer.from(torn));
    const [clean, damaged] = [join(dataDir, 'clean'), join(dataDir, 'damaged')];
    await writeFile(clean, Buffer.concat(kept));
    await writeFile(damaged, Buffer.concat([...kept, record(ours, 'Ada "the"', 999)]));
    await quarantine.addSegment('j', 1, clean);
    await quarantine.addSegment('j', 2, damaged);
    const names = await readdir(join(dataDir, 'journal', 'quarantine'));
    expect(names.filter((name) => name.endsWith('.record'))).toHaveLength(kept.length);
    expect(names.filter((name) => name.endsWith('.segment'))).toEqual(['j-1.segment']);
  }));
