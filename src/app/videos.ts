/** What starts, follows and fetches videos, joined of the rooms that know. Decides nothing. */
import { countCostChanges } from '../ceilings/counter-updates.ts';
import type { SettledCall } from '../core/call.ts';
import type { Database, Queries } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import type { StartVideo } from '../pipeline/video/start-video.ts';
import { createStartVideo } from '../pipeline/video/start-video.ts';
import type { VideoLooks } from '../pipeline/video/video-poller.ts';
import { createVideoLooks } from '../pipeline/video/video-poller.ts';
import type { VideoAnswers } from '../pipeline/video/video-queries.ts';
import { createVideoAnswers } from '../pipeline/video/video-queries.ts';
import { planMedia } from '../routing/media-plan.ts';
import { correctCalls } from '../usage/correct-calls.ts';
import type { MediaProvider } from '../vendors/media.ts';
import { createVideoVendor } from '../vendors/video.ts';
import { createVideos, lockCorrections } from '../videos/videos.ts';
import type { MediaParts } from './media.ts';

export interface VideoParts extends Omit<MediaParts, 'breakers'> {
  readonly database: Database;
  readonly logger: Logger;
}

export interface AnswerVideos {
  readonly startVideo: StartVideo;
  readonly answers: VideoAnswers;
  readonly lookAtVideo: VideoLooks['lookAtVideo'];
}

export function createVideoRooms({ database, catalog, switches, providers, calls, door, clock, logger }: VideoParts): AnswerVideos {
  const videos = createVideos({
    database,
    async correctCalls(tx, corrections) {
      await countCostChanges(tx, await correctCalls(tx, corrections));
    },
  });
  const vendor = createVideoVendor({ door, now: () => clock.now() });
  const looks = createVideoLooks({ videos, vendor, findProvider: (name) => providers().get(name) ?? null, clock, logger });
  const plan: Parameters<typeof createStartVideo>[0]['plan'] = (call, project, asked) =>
    planMedia({ ...call, ...asked, project, catalog: catalog(), catalogFill: switches().catalogFill });
  return {
    startVideo: createStartVideo({ plan, findProvider: (name) => providers().get(name), calls, vendor, videos, logger }),
    answers: createVideoAnswers({ videos, vendor, looks, providers: askable, clock }),
    lookAtVideo: looks.lookAtVideo,
  };

  /** The default one first. */
  function askable(): readonly MediaProvider[] {
    const { media, served } = catalog();
    const all = [...providers().values()].filter(({ name, dialect }) => dialect === 'gemini' && served.get(name)?.includes('video'));
    return all.toSorted(
      (one, other) => Number(other.name === media.video.defaultProvider) - Number(one.name === media.video.defaultProvider),
    );
  }
}

/** Calls that were just stored in `tx` say what is known of their videos by now; they are counted after this. */
export async function correctStoredCalls(tx: Queries, calls: readonly SettledCall[]): Promise<void> {
  const ids = calls.flatMap(({ facts }) => (facts.route === 'video' ? [facts.id] : []));
  await correctCalls(tx, await lockCorrections(tx, ids));
}
