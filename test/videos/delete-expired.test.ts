import { expect, test } from '@jest/globals';
import { deleteExpiredVideos } from '../../src/videos/delete-expired.ts';
import type { VideoResult } from '../../src/videos/videos.ts';
import { describeDatabases } from '../db/databases.ts';
import { noon } from '../journal/calls.ts';
import { newVideo, openVideos } from './new-video.ts';

const dayMs = 24 * 3_600_000;
const endings: VideoResult[] = [
  { kind: 'done', uris: ['https://video.example/v1/files/a'], fileKeys: ['files/a'] },
  { kind: 'failed', failure: 'FILTERED' },
  { kind: 'unknown' },
];

describeDatabases('stored videos', (database) => {
  const clockIn = (days: number) => ({ now: () => noon + days * dayMs });

  test('deletes videos 30 days after they were settled', async () => {
    const videos = openVideos(database());
    const old = await Promise.all(endings.map(() => newVideo(database())));
    for (const [index, ending] of endings.entries()) if (old[index]) await videos.settle(old[index].video, ending, noon);
    const { video: young } = await newVideo(database());
    await videos.settle(young, { kind: 'unknown' }, noon + 2 * dayMs);
    const { video: running } = await newVideo(database());

    expect(await deleteExpiredVideos(database(), clockIn(30))).toBe(0);
    expect(await deleteExpiredVideos(database(), clockIn(31))).toBe(endings.length);
    expect(await deleteExpiredVideos(database(), clockIn(31))).toBe(0);
    for (const { video } of old) expect(await videos.get(video.callId)).toBeNull();
    expect(await videos.get(young.callId)).toMatchObject({ state: 'unknown' });

    expect(await deleteExpiredVideos(database(), clockIn(3_000))).toBe(1);
    expect(await videos.get(running.callId)).toMatchObject({ state: 'running' });
  });
});
