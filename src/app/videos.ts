/** What starts, follows and fetches videos, joined of the rooms that know. Decides nothing. */
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
  readonly answers: VideoQueries;
  readonly pollVideo: VideoPoller['pollForWorkflow'];
}

export function createVideoHandlers({
  database,
  catalog,
  routingFlags,
  providers,
  calls,
  httpClient,
  clock,
  logger,
}: VideoDeps): VideoHandlers {
  const videos = createVideos({
    database,
    async correctCalls(tx, corrections) {
      await applyCostAdjustments(tx, await correctCalls(tx, corrections));
    },
  });
  const vendor = createVideoVendor({ httpClient, now: () => clock.now() });
  const poller = createVideoPoller({ videos, vendor, findProvider: (name) => providers().get(name) ?? null, clock, logger });
  const plan: Parameters<typeof createStartVideo>[0]['plan'] = (call, project, requested) =>
    planMedia({ ...call, ...requested, project, catalog: catalog(), catalogFill: routingFlags().catalogFill });
  return {
    startVideo: createStartVideo({ plan, findProvider: (name) => providers().get(name), calls, vendor, videos, logger }),
    answers: createVideoQueries({ videos, vendor, poller, providers: listVideoProviders, clock }),
    pollVideo: poller.pollForWorkflow,
  };

  /** The default one first. */
  function listVideoProviders(): readonly MediaProvider[] {
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
