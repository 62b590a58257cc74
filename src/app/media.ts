/** Connects the image and speech routes to the modules that implement them. */
import type { Clock } from '../core/time.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { MediaCalls } from '../pipeline/media/handle-media-call.ts';
import type { GenerateImages } from '../pipeline/media/images.ts';
import { createGenerateImages } from '../pipeline/media/images.ts';
import type { SynthesizeSpeech } from '../pipeline/media/speech.ts';
import { createSynthesizeSpeech } from '../pipeline/media/speech.ts';
import { planMedia } from '../routing/media-plan.ts';
import type { VendorHttpClient } from '../vendors/http-client.ts';
import type { ConfigSnapshot } from './config-snapshot.ts';

export interface MediaHandlers {
  readonly generateImages: GenerateImages;
  readonly synthesizeSpeech: SynthesizeSpeech;
}

export interface MediaDeps {
  readonly snapshot: () => ConfigSnapshot;
  readonly breakers: Breakers;
  readonly calls: MediaCalls;
  readonly httpClient: VendorHttpClient;
  readonly clock: Clock;
}

export function createMediaHandlers({ snapshot, breakers, calls, httpClient, clock }: MediaDeps): MediaHandlers {
  /** Dependencies of one call, which keeps the configuration it started with. */
  const depsOfCall = () => {
    const { catalog, routingFlags, mediaProviders } = snapshot();
    return {
      planMedia: (call, project, requiresPrice) =>
        planMedia({ ...call, project, requiresPrice, catalog, catalogFill: routingFlags.catalogFill, breakers }),
      findProvider: (name) => mediaProviders.get(name),
      mediaCalls: calls,
      httpClient,
      clock,
    } satisfies Parameters<typeof createGenerateImages>[0];
  };
  return {
    generateImages: (...call) => createGenerateImages(depsOfCall())(...call),
    synthesizeSpeech: (...call) => createSynthesizeSpeech(depsOfCall())(...call),
  };
}
