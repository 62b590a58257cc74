/** Connects the video routes and the polling activity to the modules that implement them. */
import { applyCostAdjustments } from '../ceilings/counter-updates.ts';
import type { SettledCall } from '../core/call.ts';
import type { Database, Queries } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import type { StartVideo } from '../pipeline/video/start-video.ts';
import { createStartVideo } from '../pipeline/video/start-video.ts';
import type { VideoPoller } from '../pipeline/video/video-poller.ts';
import { createVideoPoller } from '../pipeline/video/video-poller.ts';
import type { VideoQueries } from '../pipeline/video/video-queries.ts';
import { createVideoQueries } from '../pipeline/video/video-queries.ts';
import { planMedia } from '../routing/media-plan.ts';
import { correctCalls } from '../usage/correct-calls.ts';
import type { MediaProvider } from '../vendors/media.ts';
import { createVideoVendor } from '../vendors/video.ts';
import { createVideos, lockCorrections } from '../videos/videos.ts';
import type { MediaDeps } from './media.ts';

export interface VideoDeps extends Omit<MediaDeps, 'breakers'> {
  readonly database: Database;
  readonly logger: Logger;
}

export interface VideoHandlers {
  readonly startVideo: StartVideo;
  readonly videoQueries: VideoQueries;
  readonly pollVideo: VideoPoller['pollForWorkflow'];
}

export function createVideoHandlers({ database, snapshot, calls, httpClient, clock, logger }: VideoDeps): VideoHandlers {
  const videos = createVideos({
    database,
    async correctCalls(tx, corrections) {
      await applyCostAdjustments(tx, await correctCalls(tx, corrections));
    },
  });
  const vendor = createVideoVendor({ httpClient, now: () => clock.now() });
  const poller = createVideoPoller({ videos, vendor, findProvider: (name) => snapshot().mediaProviders.get(name) ?? null, clock, logger });
  /** Starts one video with the configuration that its call began with. */
  const startVideo: StartVideo = (...request) => {
    const { catalog, routingFlags, mediaProviders } = snapshot();
    const plan: Parameters<typeof createStartVideo>[0]['plan'] = (call, project, requested) =>
      planMedia({ ...call, ...requested, project, catalog, catalogFill: routingFlags.catalogFill });
    return createStartVideo({ plan, findProvider: (name) => mediaProviders.get(name), calls, vendor, videos, logger })(...request);
  };
  return {
    startVideo,
    videoQueries: createVideoQueries({ videos, vendor, poller, providers: listVideoProviders, clock }),
    pollVideo: poller.pollForWorkflow,
  };

  /** Providers of videos, the default one first. */
  function listVideoProviders(): readonly MediaProvider[] {
    const { catalog, mediaProviders } = snapshot();
    const { media, served } = catalog;
    const all = [...mediaProviders.values()].filter(({ name, dialect }) => dialect === 'gemini' && served.get(name)?.includes('video'));
    return all.toSorted(
      (one, other) => Number(other.name === media.video.defaultProvider) - Number(one.name === media.video.defaultProvider),
    );
  }
}

/** Applies the known final state of videos to calls that were stored in `tx`; must run before the ceilings count them. */
export async function correctStoredCalls(tx: Queries, calls: readonly SettledCall[]): Promise<void> {
  const ids = calls.flatMap(({ facts }) => (facts.route === 'video' ? [facts.id] : []));
  await correctCalls(tx, await lockCorrections(tx, ids));
}
