/**
 * Handles `POST /v1/images/edits`, `/v1/audio/transcriptions` and `/v1/audio/translations`. Relays an upload to one
 * provider, and the response back to the caller.
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
  /**
   * The form fields of the upload. If the project has content rules, we read the whole upload first, so no field is
   * missing. Otherwise, these are the fields that have arrived so far.
   */
  readonly fields: UploadFields;
  readonly countImages: () => number;
  readonly texts: readonly string[];
  readonly readAll: () => Promise<void>;
  /** Returns the upload with the model name that the vendor expects. */
  readonly bodyFor: (model: string) => UploadBody;
  readonly cancellation: CallCancellation;
}

export type RelayUpload = (call: MediaCall, project: ProjectContext, upload: UploadCall) => Promise<MediaStream>;

/** Speech is usually encoded at 64 kbit/s. We assume this rate when we charge a call that was cut off. */
const bytesPerSecond = 8_000;
/**
 * A lower bound for the bit rate of speech (6 kbit/s), which gives us an upper bound for its length when we reserve
 * cost.
 */
const minBytesPerSecond = 750;
/** OpenAI counts this many tokens per second of audio. */
const audioTokensPerSecond = 10;
/** Nobody speaks faster than this, so it's an upper bound of the tokens in a transcription. */
const maxTextTokensPerSecond = 10;

export function createRelayUpload({ planMedia, findProvider, mediaCalls, httpClient, clock }: MediaRouteDeps): RelayUpload {
  return async function relayUpload(call, project, { kind, fields, texts, countImages, readAll, bodyFor, cancellation }) {
    const hasCostCeiling = await mediaCalls.requiresPrice(call, project);
    const candidate = planMedia(call, project, hasCostCeiling);
    const provider = requireProvider(candidate, findProvider);
    assertTakesUploads(provider, kind);
    // The cost reservation depends on the number and size of the images. Those fields may come after the file, so we
    // have to read the whole upload first.
    if (hasCostCeiling && kind.route === 'images') await readAll();
    const model = modelNameAt(provider.requests, candidate.model);
    const { body, sentBytes } = countSent(bodyFor(model));
    const usageWhenCut = () => (sentBytes() < body.lengthBytes ? estimatePart(kind, sentBytes()) : {});
    const request = { call, project, candidate, texts, ...estimateUsage(call, { kind, fields, countImages, candidate }), usageWhenCut };
    return mediaCalls.stream(request, cancellation, (onRequestId) =>
      sendUpload(httpClient, { provider, kind, model, body, signal: cancellation.signal, now: () => clock.now(), onRequestId }),
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

/** For audio, this is only a rough estimate, because the size of a file says little about its length. */
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
 * Estimates what a vendor bills for an upload that was cut off. An image can't be edited before it's complete, so it's
 * free.
 */
function estimatePart({ route }: UploadKind, sentBytes: number): Pick<MediaCallRequest, 'units' | 'estimatedTokens'> {
  if (route === 'images') return { units: { images: 0 }, estimatedTokens: noTokens };
  const seconds = sentBytes / bytesPerSecond;
  return { units: { seconds }, estimatedTokens: { ...noTokens, input: toAudioTokens(seconds) } };
}

function toAudioTokens(seconds: number): number {
  return Math.ceil(seconds * audioTokensPerSecond);
}
