/**
 * `POST /v1/images/edits`, `/v1/audio/transcriptions` and `/v1/audio/translations`: relays an upload to one provider
 * and the response back to the caller.
 */
import type { MediaCall } from '../../core/call.ts';
import type { MediaCandidate } from '../../core/candidate.ts';
import { noTokens } from '../../core/pricing.ts';
import { modelNameAt } from '../../core/request-format.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import { countEditedImages, type UploadBody, type UploadFields, type UploadKind } from '../../dialects/media/uploads.ts';
import { assertTakesUploads, sendUpload } from '../../vendors/upload.ts';
import type { CallCancellation } from '../call/cancellation.ts';
import type { ProjectContext } from '../call/project-context.ts';
import type { MediaStream } from './handle-media-call.ts';
import { type MediaRouteDeps, maxImageTokens, requireProvider, tokensPerImage } from './images.ts';
import type { MediaCallRequest } from './media-record.ts';

export interface UploadCall {
  readonly kind: UploadKind;
  /** The fields that have arrived. All of them, if the project has content rules. */
  readonly fields: UploadFields;
  readonly countImages: () => number;
  /** The strings that content rules check. Empty if the project has no rules. */
  readonly texts: readonly string[];
  readonly readAll: () => Promise<void>;
  /** The body with the vendor's model in place of the caller's. */
  readonly bodyFor: (model: string) => UploadBody;
  readonly cancellation: CallCancellation;
}

export type RelayUpload = (call: MediaCall, project: ProjectContext, upload: UploadCall) => Promise<MediaStream>;

/** Bytes per second of audio at 64 kbit/s, the usual rate for speech. We charge by it when a call is cut off. */
const bytesPerSecond = 8_000;
/** Bytes per second at 6 kbit/s, the lowest rate at which speech is recorded. We use it to reserve cost. */
const minBytesPerSecond = 750;
/** OpenAI's audio tokens per second, and an upper bound of the tokens of the text that's spoken in a second. */
const audioTokensPerSecond = 10;
const maxTextTokensPerSecond = 10;

export function createRelayUpload({ planMedia, findProvider, mediaCalls, httpClient, clock }: MediaRouteDeps): RelayUpload {
  /** Throws a GatewayError. If the call has reached its vendor, it has been recorded by then. */
  return async function relayUpload(call, project, { kind, fields, texts, countImages, readAll, bodyFor, cancellation }) {
    const hasCostCeiling = await mediaCalls.requiresPrice(call, project);
    const candidate = planMedia(call, project, hasCostCeiling);
    const provider = requireProvider(candidate, findProvider);
    assertTakesUploads(provider, kind);
    // The reservation depends on the number and size of the images, and the form may send both after the file.
    if (hasCostCeiling && kind.route === 'images') await readAll();
    const model = modelNameAt(provider.requests, candidate.model);
    const { body, sentBytes } = countSent(bodyFor(model));
    const usageWhenCut = () => (sentBytes() < body.lengthBytes ? estimatePart(kind, sentBytes()) : {});
    const request = { call, project, candidate, texts, ...estimateUsage(call, { kind, fields, countImages, candidate }), usageWhenCut };
    return mediaCalls.stream(request, cancellation, () =>
      sendUpload(httpClient, { provider, kind, model, body, signal: cancellation.signal, now: () => clock.now() }),
    );
  };
}

function countSent(body: UploadBody): { readonly body: UploadBody; readonly sentBytes: () => number } {
  let sentBytes = 0;
  async function* chunks(): AsyncGenerator<Buffer, void> {
    for await (const chunk of body.chunks) {
      sentBytes += chunk.length;
      yield chunk;
    }
  }
  return { body: { ...body, chunks: chunks() }, sentBytes: () => sentBytes };
}

type EstimatedUsage = Pick<
  MediaCallRequest,
  'units' | 'unitsEstimated' | 'estimatedTokens' | 'maxUnits' | 'maxInputTokens' | 'maxOutputTokens' | 'likelyTokens'
>;

/**
 * Estimates what the call uses from its request. For audio these are rough estimates, because the bytes of a file say
 * little about its tokens.
 */
function estimateUsage(
  { bodyBytes }: MediaCall,
  {
    kind: { route },
    fields,
    countImages,
    candidate,
  }: Pick<UploadCall, 'kind' | 'fields' | 'countImages'> & { readonly candidate: MediaCandidate },
): EstimatedUsage {
  const promptTokens = estimateTokens(fields.get('prompt')?.length ?? 0);
  if (route === 'images') {
    const images = countEditedImages(fields);
    const estimatedTokens = { ...noTokens, input: promptTokens + tokensPerImage, output: images * tokensPerImage };
    return {
      ...{ units: { images, imageTokens: tokensPerImage }, estimatedTokens },
      maxInputTokens: promptTokens + Math.max(1, countImages()) * maxImageTokens(candidate, undefined),
      maxOutputTokens: images * maxImageTokens(candidate, fields.get('size')),
    };
  }
  const seconds = bodyBytes / bytesPerSecond;
  const maxSeconds = bodyBytes / minBytesPerSecond;
  const estimatedTokens = { ...noTokens, input: promptTokens + toAudioTokens(seconds) };
  return {
    ...{ units: { seconds }, unitsEstimated: true, estimatedTokens, maxUnits: { seconds: maxSeconds } },
    ...{ maxInputTokens: promptTokens + toAudioTokens(maxSeconds), maxOutputTokens: Math.ceil(maxSeconds * maxTextTokensPerSecond) },
    likelyTokens: estimatedTokens.input + Math.ceil(seconds * maxTextTokensPerSecond),
  };
}

/**
 * Estimates how much a vendor may have used of an upload that broke off. It can't edit an image that it has only
 * received in part.
 */
function estimatePart({ route }: UploadKind, sentBytes: number): Pick<MediaCallRequest, 'units' | 'estimatedTokens'> {
  if (route === 'images') return { units: { images: 0 }, estimatedTokens: noTokens };
  const seconds = sentBytes / bytesPerSecond;
  return { units: { seconds }, estimatedTokens: { ...noTokens, input: toAudioTokens(seconds) } };
}

function toAudioTokens(seconds: number): number {
  return Math.ceil(seconds * audioTokensPerSecond);
}
