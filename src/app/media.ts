/** Connects the media routes and the activity that polls videos to the modules that implement them. */
import { applyCostAdjustments } from '../ceilings/counter-updates.ts';
import type { CheckCeilings } from '../pipeline/call/check-ceilings.ts';
import { createMediaCalls, type MediaDeps } from '../pipeline/media/handle-media-call.ts';
import { createGenerateImages, type GenerateImages, type MediaRouteDeps } from '../pipeline/media/images.ts';
import { createSynthesizeSpeech, type SynthesizeSpeech } from '../pipeline/media/speech.ts';
import { createRelayUpload, type RelayUpload } from '../pipeline/media/uploads.ts';
import { createStartVideo, type StartVideo } from '../pipeline/video/start-video.ts';
import { createVideoPoller } from '../pipeline/video/video-poller.ts';
import { createVideoQueries } from '../pipeline/video/video-queries.ts';
import { planMedia } from '../routing/media-plan.ts';
import { correctCalls } from '../usage/correct-calls.ts';
import type { RecordRefusal } from '../usage/refusals/recorder.ts';
import type { VendorHttpClient } from '../vendors/http-client.ts';
import type { MediaProvider } from '../vendors/media.ts';
import { createVideoVendor } from '../vendors/video.ts';
import { createVideos } from '../videos/videos.ts';
import type { AppBase } from './base.ts';
import { recordRefused } from './record-refused.ts';

export type MediaHandlers = ReturnType<typeof createMediaHandlers>;

interface MediaHandlerDeps extends MediaDeps, Pick<AppBase, 'snapshot' | 'database'> {
  readonly httpClient: VendorHttpClient;
  readonly recordRefusal: RecordRefusal;
  readonly checkCeilings: CheckCeilings;
}

export function createMediaHandlers({ snapshot, database, httpClient, recordRefusal, checkCeilings, ...deps }: MediaHandlerDeps) {
  const { breakers, pools, clock, logger } = deps;
  const mediaCalls = createMediaCalls(deps);
  const videos = createVideos({
    database,
    correctCalls: async (tx, corrections) => applyCostAdjustments(tx, await correctCalls(tx, corrections)),
  });
  const vendor = createVideoVendor({ httpClient, now: () => clock.now() });
  const poller = createVideoPoller({ videos, vendor, findProvider: (name) => snapshot().mediaProviders.get(name) ?? null, clock, logger });
  const generateImages: GenerateImages = recordRefused(recordRefusal, (...call) => createGenerateImages(depsOfCall())(...call));
  const synthesizeSpeech: SynthesizeSpeech = recordRefused(recordRefusal, (...call) => createSynthesizeSpeech(depsOfCall())(...call));
  const relayUpload: RelayUpload = recordRefused(recordRefusal, (...call) => createRelayUpload(depsOfCall())(...call));
  const startVideo: StartVideo = recordRefused(recordRefusal, (...call) =>
    createStartVideo({ ...depsOfCall(), vendor, videos, logger })(...call),
  );
  return {
    routes: { generateImages, synthesizeSpeech, relayUpload },
    videoRoutes: {
      startVideo,
      checkCeilings,
      videoQueries: createVideoQueries({ videos, vendor, poller, providers: listVideoProviders, clock }),
    },
    activities: { pollVideo: poller.pollForWorkflow },
  };

  /** The dependencies of a call, which stay the same until it ends even if the configuration is reloaded. */
  function depsOfCall(): MediaRouteDeps {
    const {
      catalog,
      config: { catalogFill },
      mediaProviders,
    } = snapshot();
    return {
      planMedia: (call, project, requiresPrice) =>
        planMedia({
          ...{ ...call, project, requiresPrice, catalog, catalogFill, loads: pools.loads },
          ...((call.route !== 'video' || catalog.pools.size > 0) && { breakers }),
        }),
      findProvider: (name) => mediaProviders.get(name),
      mediaCalls,
      httpClient,
      clock,
    };
  }

  function listVideoProviders(): readonly MediaProvider[] {
    const { catalog, mediaProviders } = snapshot();
    const { media, served } = catalog;
    const all = [...mediaProviders]
      .filter(([, { name, dialect }]) => dialect === 'gemini' && served.get(name)?.includes('video'))
      // All members of a pool have the provider's name. Replace it with the key of the member, because stored videos
      // have to identify the member.
      .map(([key, provider]) => (key === provider.name ? provider : { ...provider, name: key }));
    return all.toSorted(
      (one, other) => Number(other.name === media.video.defaultProvider) - Number(one.name === media.video.defaultProvider),
    );
  }
}
