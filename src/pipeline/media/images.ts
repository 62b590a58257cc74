/** `POST /v1/images/generations`: asks one provider for images, and makes the one result of what it answers (shapes 9). */
import type { MediaCall, MediaCandidate } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { noTokens } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import type { MediaFields } from '../../dialects/media/image-speech.ts';
import { textsOf } from '../../dialects/media/image-speech.ts';
import type { VendorDoor } from '../../vendors/http-client.ts';
import { prepareImages } from '../../vendors/images.ts';
import type { MediaProvider } from '../../vendors/media.ts';
import type { CalledProject } from '../call/project-context.ts';
import type { MediaCalls } from './handle-media-call.ts';

export interface ImageResult {
  readonly model: string;
  /** `{"created","data":[{"b64_json"}]}` */
  readonly json: Buffer;
}

/** What the image and speech calls are made of. */
export interface MediaRouteDeps {
  readonly planMedia: (call: MediaCall, project: CalledProject, requiresPrice: boolean) => MediaCandidate;
  readonly findProvider: (name: string) => MediaProvider | undefined;
  readonly mediaCalls: MediaCalls;
  readonly door: VendorDoor;
  readonly clock: Clock;
}

export type AnswerImages = (call: MediaCall, project: CalledProject, fields: MediaFields) => Promise<ImageResult>;

/** What a picture of 1024 by 1024 comes to at OpenAI, in its middle quality: for vendors that charge by tokens and count none. */
const tokensOfImage = 1_056;
/** The largest of its pictures, in the best quality. */
const mostTokensOfImage = 6_240;

export function createAnswerImages({ planMedia, findProvider, mediaCalls, door, clock }: MediaRouteDeps): AnswerImages {
  /** Throws GatewayError; the call has been recorded then, if the vendor was asked. */
  return async function answerImages(call, project, fields) {
    const candidate = planMedia(call, project, await mediaCalls.requiresPrice(call, project));
    const provider = providerOf(candidate, findProvider);
    const { count: images, ask } = prepareImages({ provider, model: candidate.model, fields, now: () => clock.now() });
    const texts = textsOf(fields);
    const likelyTokens = { ...noTokens, input: estimateTokens(fields.prompt?.length ?? 0), output: images * tokensOfImage };
    const json = await mediaCalls.answer(
      { call, project, texts, candidate, units: { images }, likelyTokens, mostOutputTokens: images * mostTokensOfImage },
      async () => {
        const answer = await ask(door);
        const created = answer.created ?? Math.floor(clock.now() / 1_000);
        const data = answer.images.map((b64_json) => ({ b64_json }));
        const { status, tokens } = answer;
        return { value: Buffer.from(JSON.stringify({ created, data })), status, tokens, units: { images: answer.images.length } };
      },
    );
    return { model: candidate.id, json };
  };
}

/** The row of the candidate's provider; it can be gone only where the configuration was replaced in between. */
export function providerOf({ provider }: MediaCandidate, findProvider: MediaRouteDeps['findProvider']): MediaProvider {
  const found = findProvider(provider);
  if (!found) throw gatewayError('no_route');
  return found;
}
