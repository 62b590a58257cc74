import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import { isDataError } from '../../src/journal/data-errors.ts';
import { createQuarantine, deleteExpired, listQuarantined } from '../../src/journal/quarantine.ts';
import { encodeRecord } from '../../src/journal/record.ts';
import { factsOf, settledCall, withFolder, withText } from './calls.ts';
import { idsOf, withDrain } from './drain-helper.ts';

describe('a record that the database rejects', () => {
  const isPoison = (call: SettledCall): boolean => call.content?.request.includes('poison') ?? false;

  test('finds the rejected record by bisection and stores all others', () =>
    withDrain(
      async ({ dataDir, journal, drain, batches }) => {
        const calls = Array.from({ length: 300 }, (_value, index) => settledCall({ content: withText(index === 77 ? 'poison' : 'good') }));
        const poison = calls[77];
        await Promise.all(calls.map((call) => journal.settle(call)));
        await drain.waitUntilDrained();
        expect(idsOf(batches).sort()).toEqual(calls.map(({ metadata }) => metadata.id).sort());
        const stored = batches.flat().find(({ metadata }) => metadata.id === poison?.metadata.id);
        expect(stored).toEqual({ ...poison, content: null });
        expect(batches.flat().filter(({ content }) => content === null)).toHaveLength(1);
        expect(drain.counts()).toMatchObject({ stored: 300, quarantined: 1, rejected: 0 });
        const quarantine = join(dataDir, 'journal', 'quarantine');
        expect(await readdir(quarantine)).toEqual([`${poison?.metadata.id}.record`]);
        expect((await readFile(join(quarantine, `${poison?.metadata.id}.record`))).includes('poison')).toBe(true);
      },
      { rejects: isPoison },
    ));

  test("removes all of the caller's text from a call if the database still rejects it", () =>
    withDrain(
      async ({ journal, drain, batches }) => {
        const metadata = factsOf();
        const call = settledCall({ metadata: { ...metadata, correlation: { ...metadata.correlation, taskId: 'poison' } } });
        await journal.settle(call);
        await drain.waitUntilDrained();
        expect(batches.flat()).toEqual([{ ...call, metadata: { ...metadata, plan: [] } }]);
        expect(drain.counts()).toMatchObject({ stored: 1, quarantined: 1, rejected: 0 });
      },
      { rejects: ({ metadata }) => metadata.correlation.taskId === 'poison' },
    ));

  test('keeps a call only in the quarantine and logs its cost if nothing else works', () => {
    const rejected: SettledCall[] = [];
    return withDrain(
      async ({ journal, drain, batches, logger }) => {
        const [bad, good] = [settledCall({ metadata: { keyId: 'not a uuid' } }), settledCall()];
        await Promise.all([journal.settle(bad), journal.settle(good)]);
        await drain.waitUntilDrained();
        expect(idsOf(batches)).toEqual([good.metadata.id]);
        expect(drain.counts()).toMatchObject({ stored: 1, quarantined: 1, rejected: 1 });
        const line = logger.lines.find(({ message }) => message === 'database rejected a call; call not stored');
        expect(line?.fields).toMatchObject({ call: bad.metadata.id, costNanos: 1_000 });
        expect(idsOf([rejected])).toEqual([bad.metadata.id]);
      },
      { rejects: ({ metadata }) => metadata.keyId === 'not a uuid', onRejected: (call) => void rejected.push(call) },
    );
  });

  test('isolates a record whose processing throws an error', () =>
    withDrain(
      async ({ journal, drain, batches }) => {
        const response = JSON.parse('{"text":"fine","toolCalls":[{"name":5,"arguments":"{}"}]}');
        const [bad, good] = [settledCall({ content: { request: Buffer.from('{}'), response } }), settledCall()];
        await Promise.all([journal.settle(bad), journal.settle(good)]);
        await drain.waitUntilDrained();
        expect(batches.flat()).toEqual([{ ...bad, content: null }, good]);
        expect(drain.counts()).toMatchObject({ stored: 2, quarantined: 1, rejected: 0 });
      },
      { recentBytes: 16_000 },
    ));

  test("keeps draining even if the quarantine folder isn't writable", () =>
    withDrain(
      async ({ dataDir, journal, drain, batches }) => {
        await writeFile(join(dataDir, 'journal', 'quarantine'), 'a file where the folder should be');
        await journal.settle(settledCall({ content: withText('poison') }));
        await drain.waitUntilDrained();
        expect(batches.flat()).toMatchObject([{ content: null }]);
      },
      { rejects: isPoison },
    ));

  test("removes characters that the database doesn't accept from stored texts", () =>
    withDrain(async ({ journal, drain, batches }) => {
      const metadata = factsOf();
      const correlation = { ...metadata.correlation, taskId: `\0${'😀'.repeat(300)}`, agentId: 'a\ud800b' };
      const call = settledCall({
        metadata: { ...metadata, source: `${'é'.repeat(300)}`, modelAsked: 'm\0x', correlation },
        content: { request: Buffer.from('{}'), response: { text: 'a\0b\udc00', toolCalls: [{ name: 'n\0', arguments: '"\ud83d"' }] } },
      });
      await journal.settle(call);
      await drain.waitUntilDrained();
      expect(batches.flat()[0]).toMatchObject({
        metadata: { source: 'é'.repeat(256), modelAsked: 'mx', correlation: { taskId: '😀'.repeat(256), agentId: 'a\ufffdb' } },
        content: { response: { text: 'ab\ufffd', toolCalls: [{ name: 'n', arguments: '"\ufffd"' }] } },
      });
    }));

  /** Together, these two lists contain all SQLSTATE classes of PostgreSQL 18 (the first two characters of a code). */
  const classesOfTheDatabase =
    '00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 10 20 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 40 42 53 55 57 58 F0 HV P0 XX 72'.split(' ');
  const classesOfTheData = '21 22 23 44 54'.split(' ');

  test.each([
    ...classesOfTheDatabase.map((start) => [`${start}000`, false] as const),
    ...classesOfTheData.map((start) => [`${start}000`, true] as const),
    ['22P05', true],
    ['23502', true],
    ['0A000', false],
    ['XX001', false],
    ['XX002', false],
    ['08006', false],
    ['57P01', false],
    ['53100', false],
    ['40P01', false],
    ['40001', false],
    ['42P01', false],
    ['55P03', false],
    ['P0001', false],
    ['ECONNRESET', false],
    ['ENOSPC', false],
    ['ERR_INVALID_ARG_TYPE', true],
    [undefined, true],
  ])('treats %s as a data error: %s', (code, expected) => {
    expect(isDataError(Object.assign(new Error('database error'), code === undefined ? {} : { code }))).toBe(expected);
    // PGlite throws plain objects instead of `Error` instances.
    expect(isDataError({ message: 'database error', code })).toBe(expected);
  });
});

describe('the deletion period', () => {
  const day = 24 * 3_600_000;
  const poisoned = settledCall({ content: withText('poison') });
  const { id, projectId, startedAt } = poisoned.metadata;
  const withPoison = (work: (dataDir: string) => Promise<void>) =>
    withDrain(
      async ({ dataDir, journal, drain }) => {
        await journal.settle(poisoned);
        await drain.waitUntilDrained();
        await work(dataDir);
      },
      { rejects: (call) => call.content !== null },
    );
  const namesIn = async (dataDir: string) => (await listQuarantined(dataDir)).map(({ name }) => name);

  test('deletes a quarantined record based on when its call started', () =>
    withPoison(async (dataDir) => {
      expect(await listQuarantined(dataDir)).toEqual([
        { name: `${id}.record`, bytes: expect.any(Number), quarantinedAt: expect.any(Date), calls: [{ projectId, startedAt }] },
      ]);
      const other = newId(0);
      for (const periods of [[], [{ projectId, before: new Date(startedAt) }], [{ projectId: other, before: new Date(startedAt + day) }]]) {
        expect(await deleteExpired(dataDir, periods)).toBe(0);
      }
      expect(await deleteExpired(dataDir, [{ projectId, before: new Date(startedAt + 1) }])).toBe(1);
      expect(await listQuarantined(dataDir)).toEqual([]);
    }));

  test("applies the deletion period of the call's project to quarantined records", () =>
    withFolder(async (dataDir) => {
      const request = `{"a":"${id}","startedAt":0,"projectId":"${newId(0)}","subject":"erased","b":1}`;
      const raw = Buffer.concat(
        encodeRecord({ kind: 'settled', call: settledCall({ metadata: { id, projectId }, content: withText(request) }) }),
      );
      await createQuarantine(dataDir, async (calls) => calls.length > 0).addRecord(id, raw); // No call with a subject.
      expect(await listQuarantined(dataDir)).toMatchObject([{ calls: [{ projectId, startedAt }] }]);
    }));

  test('deletes unreadable quarantined files after the longest deletion period of any project', () =>
    withPoison(async (dataDir) => {
      const file = join(dataDir, 'damaged');
      await writeFile(file, 'not a record');
      await createQuarantine(dataDir).addSegment('journal', 1, file);
      const [now, other] = [Date.now(), newId(0)];
      expect(await deleteExpired(dataDir, [{ projectId: other, before: new Date(now - day) }])).toBe(0);
      expect(await namesIn(dataDir)).toContain('journal-1.segment');
      const periods = [now - day, now + day].map((time) => ({ projectId: newId(time), before: new Date(time) }));
      expect(await deleteExpired(dataDir, periods)).toBe(1);
      expect(await namesIn(dataDir)).toEqual([`${id}.record`]);
    }));
});
