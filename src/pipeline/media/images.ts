/** `POST /v1/images/generations`: asks one provider for images, and makes the one result of what it answers (shapes 9). */
import type { MediaCall, MediaCandidate } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { noTokens } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import type { MediaFields } from '../../dialects/media/image-speech.ts';
import { getPromptTexts } from '../../dialects/media/image-speech.ts';
import type { VendorHttpClient } from '../../vendors/http-client.ts';
import { prepareImages } from '../../vendors/images.ts';
import type { MediaProvider } from '../../vendors/media.ts';
import type { ProjectContext } from '../call/project-context.ts';
import type { MediaCalls } from './handle-media-call.ts';

export interface ImageResult {
  readonly model: string;
  /** `{"created","data":[{"b64_json"}]}` */
  readonly json: Buffer;
}

/** What the image and speech calls are made of. */
export interface MediaRouteDeps {
  readonly planMedia: (call: MediaCall, project: ProjectContext, requiresPrice: boolean) => MediaCandidate;
  readonly findProvider: (name: string) => MediaProvider | undefined;
  readonly mediaCalls: MediaCalls;
  readonly httpClient: VendorHttpClient;
  readonly clock: Clock;
}

export type GenerateImages = (call: MediaCall, project: ProjectContext, fields: MediaFields) => Promise<ImageResult>;

/** What a picture of 1024 by 1024 comes to at OpenAI, in its middle quality: for vendors that charge by tokens and count none. */
const tokensPerImage = 1_056;
/** The largest of its pictures, in the best quality. */
const maxTokensPerImage = 6_240;

export function createGenerateImages({ planMedia, findProvider, mediaCalls, httpClient, clock }: MediaRouteDeps): GenerateImages {
  /** Throws GatewayError; the call has been recorded then, if the vendor was asked. */
  return async function generateImages(call, project, fields) {
    const candidate = planMedia(call, project, await mediaCalls.requiresPrice(call, project));
    const provider = requireProvider(candidate, findProvider);
    const { count: images, send } = prepareImages({ provider, model: candidate.model, fields, now: () => clock.now() });
    const texts = getPromptTexts(fields);
    const estimatedTokens = { ...noTokens, input: estimateTokens(fields.prompt?.length ?? 0), output: images * tokensPerImage };
    const json = await mediaCalls.execute(
      { call, project, texts, candidate, units: { images }, estimatedTokens, maxOutputTokens: images * maxTokensPerImage },
      async () => {
        const response = await send(httpClient);
        const created = response.created ?? Math.floor(clock.now() / 1_000);
        const data = response.images.map((b64_json) => ({ b64_json }));
        const { status, tokens } = response;
        return { value: Buffer.from(JSON.stringify({ created, data })), status, tokens, units: { images: response.images.length } };
      },
    );
    return { model: candidate.id, json };
  };
}

/** The row of the candidate's provider; it can be gone only where the configuration was replaced in between. */
export function requireProvider({ provider }: MediaCandidate, findProvider: MediaRouteDeps['findProvider']): MediaProvider {
  const found = findProvider(provider);
  if (!found) throw gatewayError('no_route');
  return found;
}
