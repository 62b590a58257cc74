/** What answers the media routes, joined of the rooms that know. Decides nothing. */
import type { Clock } from '../core/time.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { MediaCalls } from '../pipeline/media/handle-media-call.ts';
import type { GenerateImages } from '../pipeline/media/images.ts';
import { createGenerateImages } from '../pipeline/media/images.ts';
import type { SynthesizeSpeech } from '../pipeline/media/speech.ts';
import { createSynthesizeSpeech } from '../pipeline/media/speech.ts';
import type { Catalog } from '../routing/catalog.ts';
import { planMedia } from '../routing/media-plan.ts';
import type { RoutingFlags } from '../routing/select.ts';
import type { VendorHttpClient } from '../vendors/http-client.ts';
import type { MediaProvider } from '../vendors/media.ts';

export interface MediaHandlers {
  readonly answerImages: GenerateImages;
  readonly answerSpeech: SynthesizeSpeech;
}

export interface MediaDeps {
  readonly catalog: () => Catalog;
  readonly routingFlags: () => RoutingFlags;
  readonly providers: () => ReadonlyMap<string, MediaProvider>;
  readonly breakers: Breakers;
  readonly calls: MediaCalls;
  readonly httpClient: VendorHttpClient;
  readonly clock: Clock;
}

export function createMediaHandlers({ catalog, routingFlags, providers, breakers, calls, httpClient, clock }: MediaDeps): MediaHandlers {
  const deps = {
    planMedia: (call, project, requiresPrice) =>
      planMedia({ ...call, project, requiresPrice, catalog: catalog(), catalogFill: routingFlags().catalogFill, breakers }),
    findProvider: (name) => providers().get(name),
    mediaCalls: calls,
    httpClient,
    clock,
  } satisfies Parameters<typeof createGenerateImages>[0];
  return { answerImages: createGenerateImages(deps), answerSpeech: createSynthesizeSpeech(deps) };
}
