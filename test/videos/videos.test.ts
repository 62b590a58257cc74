import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../src/core/call.ts';
import type { Database } from '../../src/db/database.ts';
import { listCalls } from '../../src/usage/call-rows.ts';
import { correctCalls } from '../../src/usage/correct-calls.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { lockCorrections, reenqueueVideoPolls, type Video, type VideoResult } from '../../src/videos/videos.ts';
import { describeDatabases } from '../db/databases.ts';
import { noon } from '../journal/calls.ts';
import { newVideo, openVideos } from './new-video.ts';

const done: VideoResult = { kind: 'done', uris: ['https://video.example/v1/files/a'], fileKeys: ['files/a'] };

/** Stores calls like the drain does. */
function store(database: Database, call: SettledCall): Promise<void> {
  return database.transaction(async (tx) => {
    const added = await storeCalls(tx, [call]);
    await correctCalls(
      tx,
      await lockCorrections(
        tx,
        added.map(({ metadata }) => metadata.id),
      ),
    );
  });
}

async function rowOf(database: Database, { projectId }: Video) {
  const [row] = await listCalls(database, projectId);
  return row && { outcome: row.outcome, code: row.code, cost: row.cost, estimated: row.estimated, attempt: row.attempts[0]?.cost };
}

describeDatabases('storing a video', (database) => {
  test('stores a video together with the outbox row of its workflow', async () => {
    const { video } = await newVideo(database());
    const [entry] = await database().query(`select workflow, workflow_id as id, input from outbox where input->>'call_id' = $1`, [
      video.callId,
    ]);
    expect(entry).toEqual({
      workflow: 'videoOperation',
      id: expect.stringMatching(/^video\/[0-9a-f]{64}$/),
      input: { call_id: video.callId },
    });
    await openVideos(database()).add(video);
    expect(await openVideos(database()).get(video.callId)).toEqual(video);
  });

  test("finds the project's own video if the vendor has used the operation name before", async () => {
    const videos = openVideos(database());
    const operation = `models/veo/operations/${randomUUID()}`;
    const { video: first } = await newVideo(database(), { operation });
    const { video: other } = await newVideo(database(), { operation, startedAt: noon + 1 });
    expect(await videos.findByOperation(first.projectId, operation)).toMatchObject({ callId: first.callId });
    expect(await videos.findByOperation(other.projectId, operation)).toMatchObject({ callId: other.callId });
    expect(await videos.findByOperation(randomUUID(), operation)).toMatchObject({ callId: other.callId });
    expect(await videos.findByOperation(first.projectId, 'operations/none')).toBeNull();
    const id = operation.slice('models/veo/'.length);
    for (const spelling of [id, `models/other/${id}`])
      expect(await videos.findByOperation(first.projectId, spelling)).toMatchObject({ callId: first.callId });
    await videos.settle(first, { ...done, fileKeys: [`files/${first.callId}`] }, noon);
    expect(await videos.findByFile(randomUUID(), `files/${first.callId}`)).toMatchObject({ projectId: first.projectId, state: 'done' });
    expect(await videos.findByFile(first.projectId, 'files/none')).toBeNull();
  });

  test.each<[string, VideoResult, object]>([
    ['is done', done, { outcome: 'ok', code: null, cost: 3.2, estimated: false, attempt: 3.2 }],
    ['is done with two files', { ...done, uris: ['a', 'b'] }, { outcome: 'ok', code: null, cost: 6.4, estimated: false, attempt: 6.4 }],
    ['fails', { kind: 'failed', failure: 'FILTERED' }, { outcome: 'failed', code: 'video_failed', cost: 0, estimated: false, attempt: 0 }],
    ['is given up', { kind: 'unknown' }, { outcome: 'unknown', code: null, cost: 3.2, estimated: true, attempt: 3.2 }],
  ])('settles the call of a video that %s', async (_what, ending, expected) => {
    const videos = openVideos(database());
    const early = await newVideo(database());
    await store(database(), early.call);
    expect(await rowOf(database(), early.video)).toMatchObject({ outcome: 'ok', cost: 3.2, estimated: true });
    await videos.settle(early.video, ending, noon);
    expect(await rowOf(database(), early.video)).toEqual(expected);

    const late = await newVideo(database());
    await videos.settle(late.video, ending, noon);
    await store(database(), late.call);
    await store(database(), late.call);
    expect(await rowOf(database(), late.video)).toEqual(expected);
  });

  test('ignores later results for a settled video', async () => {
    const videos = openVideos(database());
    const { video, call } = await newVideo(database());
    await store(database(), call);
    await videos.settle(video, { kind: 'unknown' }, noon);
    await videos.settle(video, { kind: 'failed', failure: 'INTERNAL' }, noon + 1);
    await videos.settle(video, done, noon + 2);
    expect(await rowOf(database(), video)).toMatchObject({ outcome: 'failed', cost: 0 });
    expect(await videos.get(video.callId)).toMatchObject({ state: 'failed', failure: 'INTERNAL', uris: [], polledAt: noon + 1 });
  });

  test('settles a video whose call is still being stored', async () => {
    const videos = openVideos(database());
    for (let round = 0; round < 10; round += 1) {
      const { video, call } = await newVideo(database());
      await Promise.all([store(database(), call), videos.settle(video, { kind: 'failed', failure: 'INTERNAL' }, noon)]);
      expect(await rowOf(database(), video)).toMatchObject({ outcome: 'failed', cost: 0 });
    }
  });

  test('records an unknown cost for a video without a price', async () => {
    const videos = openVideos(database());
    const { video, call } = await newVideo(database(), { secondNanos: null });
    await store(database(), { ...call, result: { ...call.result, costNanos: null } });
    expect(await rowOf(database(), video)).toMatchObject({ cost: null, estimated: true });
    await videos.settle(video, { kind: 'failed', failure: 'INTERNAL' }, noon);
    expect(await rowOf(database(), video)).toMatchObject({ cost: 0, estimated: false });
  });

  test('starts the workflow of a running video again after Temporal has lost its state', async () => {
    const { video: running } = await newVideo(database());
    const { video: settled } = await newVideo(database());
    await openVideos(database()).settle(settled, done, noon);
    await database().query('delete from outbox');
    await reenqueueVideoPolls(database());
    const rows = await database().query<{ id: string }>(`select input->>'call_id' as id from outbox`);
    const ids = rows.map(({ id }) => id);
    expect(ids).toContain(running.callId);
    expect(ids).not.toContain(settled.callId);
  });
});
