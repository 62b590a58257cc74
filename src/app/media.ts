/** What answers the media routes, joined of the rooms that know. Decides nothing. */
import type { Clock } from '../core/time.ts';
import type { Breakers } from '../failover/breaker.ts';
import type { MediaCalls } from '../pipeline/media/handle-media-call.ts';
import type { AnswerImages } from '../pipeline/media/images.ts';
import { createAnswerImages } from '../pipeline/media/images.ts';
import type { AnswerSpeech } from '../pipeline/media/speech.ts';
import { createAnswerSpeech } from '../pipeline/media/speech.ts';
import type { Catalog } from '../routing/catalog.ts';
import { planMedia } from '../routing/media-plan.ts';
import type { RoutingSwitches } from '../routing/select.ts';
import type { VendorDoor } from '../vendors/http-client.ts';
import type { MediaProvider } from '../vendors/media.ts';

export interface AnswerMedia {
  readonly answerImages: AnswerImages;
  readonly answerSpeech: AnswerSpeech;
}

export interface MediaParts {
  readonly catalog: () => Catalog;
  readonly switches: () => RoutingSwitches;
  readonly providers: () => ReadonlyMap<string, MediaProvider>;
  readonly breakers: Breakers;
  readonly calls: MediaCalls;
  readonly door: VendorDoor;
  readonly clock: Clock;
}

export function createMedia({ catalog, switches, providers, breakers, calls, door, clock }: MediaParts): AnswerMedia {
  const deps = {
    planMedia: (call, project, requiresPrice) =>
      planMedia({ ...call, project, requiresPrice, catalog: catalog(), catalogFill: switches().catalogFill, breakers }),
    findProvider: (name) => providers().get(name),
    mediaCalls: calls,
    door,
    clock,
  } satisfies Parameters<typeof createAnswerImages>[0];
  return { answerImages: createAnswerImages(deps), answerSpeech: createAnswerSpeech(deps) };
}
