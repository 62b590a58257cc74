/** Generates images at one provider (`POST /v1/images/generations`). */
import type { MediaCall } from '../../core/call.ts';
import { connectionKey, type MediaCandidate } from '../../core/candidate.ts';
import { gatewayError } from '../../core/errors.ts';
import { noTokens } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import type { MediaRequestSummary } from '../../dialects/media/image-speech.ts';
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

export interface MediaRouteDeps {
  /** Falls back to the default model if the request doesn't name one. Throws `no_route`. */
  readonly planMedia: (
    call: Omit<MediaCall, 'requestedModel'> & { readonly requestedModel: string | null },
    project: ProjectContext,
    requiresPrice: boolean,
  ) => MediaCandidate;
  readonly findProvider: (name: string) => MediaProvider | undefined;
  readonly mediaCalls: MediaCalls;
  readonly httpClient: VendorHttpClient;
  readonly clock: Clock;
}

/** Abort `unsentSignal` to stop checking the content rules. This has no effect once the request has been sent. */
export type GenerateImages = (
  call: MediaCall,
  project: ProjectContext,
  request: Pick<MediaRequestSummary, 'fields' | 'texts'>,
  unsentSignal: AbortSignal | undefined,
) => Promise<ImageResult>;

/**
 * OpenAI's token count for a 1024x1024 image in medium quality. If the price is per token and the vendor doesn't report
 * tokens, we charge this.
 */
export const tokensPerImage = 1_056;
/** OpenAI's token count for a 1024x1536 image in high quality. */
const maxTokensPerImage = 6_240;
/** Sizes are shorter than this, even if all their characters are escaped in JSON. */
const maxSizeLength = 100;
const pixelsPerImage = 1_024 * 1_536;

/**
 * Returns an upper bound of the tokens of one image. If the size is `auto` or we can't parse it, we assume 1024x1536,
 * because the image can't be larger than that.
 */
export function maxImageTokens({ imageTokens }: MediaCandidate, size: string | undefined): number {
  const [, width = '0', height = '0'] = /(\d{1,5})x(\d{1,5})/.exec(size?.slice(0, maxSizeLength) ?? '') ?? [];
  const scale = Math.max(1, (Number(width) * Number(height)) / pixelsPerImage);
  return Math.ceil((imageTokens ?? maxTokensPerImage) * scale);
}

export function createGenerateImages({ planMedia, findProvider, mediaCalls, httpClient, clock }: MediaRouteDeps): GenerateImages {
  return async function generateImages(call, project, { fields, texts }, unsentSignal) {
    const candidate = planMedia(call, project, await mediaCalls.requiresPrice(call, project));
    const provider = requireProvider(candidate, findProvider);
    const { count: images, send } = prepareImages({
      provider,
      model: candidate.model,
      fields,
      takes: candidate.takes,
      now: () => clock.now(),
    });
    const estimatedTokens = { ...noTokens, input: estimateTokens(fields.prompt?.length ?? 0), output: images * tokensPerImage };
    const json = await mediaCalls.execute(
      {
        ...{ call, project, texts, unsentSignal, candidate, units: { images }, estimatedTokens },
        maxOutputTokens: images * maxImageTokens(candidate, fields.size),
      },
      async (onRequestId) => {
        const response = await send(httpClient, onRequestId);
        const created = response.created ?? Math.floor(clock.now() / 1_000);
        const data = response.images.map((b64_json) => ({ b64_json }));
        const { status, tokens, generated } = response;
        return { value: Buffer.from(JSON.stringify({ created, data })), status, tokens, units: { images: generated } };
      },
    );
    return { model: candidate.id, json };
  };
}

/** Throws `no_route` if a configuration reload has removed the provider since we planned the call. */
export function requireProvider(candidate: MediaCandidate, findProvider: MediaRouteDeps['findProvider']): MediaProvider {
  const row = findProvider(connectionKey(candidate));
  if (!row) throw gatewayError('no_route', { refusal: { reason: 'no_model' } });
  return row;
}
