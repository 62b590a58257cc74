/** Creates videos for tests. Each one has its own project, and the call that started it. */
import { randomUUID } from 'node:crypto';
import type { SettledCall } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import type { Database } from '../../src/db/database.ts';
import { correctCalls } from '../../src/usage/correct-calls.ts';
import { createVideos, type NewVideo, type Video, type Videos } from '../../src/videos/videos.ts';
import { noon, settledCall } from '../journal/calls.ts';

/** The cost of eight seconds. */
const estimateNanos = 3_200_000_000;

export function openVideos(database: Database): Videos {
  return createVideos({ database, correctCalls });
}

/** Creates a video in a new project: one sample of eight seconds at 0.40 USD per second. */
export async function newVideo(database: Database, changes: Partial<NewVideo> = {}): Promise<{ video: Video; call: SettledCall }> {
  const projectId = randomUUID();
  await database.query('insert into projects (id, slug, name) values ($1::uuid, $2::text, $2::text)', [projectId, projectId]);
  const callId = newId(noon);
  const video: NewVideo = {
    callId,
    projectId,
    provider: 'google',
    model: 'veo',
    operation: `models/veo/operations/${callId}`,
    secondNanos: 400_000_000,
    durationMs: 8_000,
    samples: 1,
    startedAt: noon,
    ...changes,
  };
  const call = settledCall({
    metadata: { id: callId, projectId: video.projectId, route: 'video' },
    result: { outcome: 'ok', costNanos: estimateNanos },
  });
  await openVideos(database).add(video);
  return { video: { ...video, state: 'running', uris: [], failure: null, polledAt: null }, call };
}
