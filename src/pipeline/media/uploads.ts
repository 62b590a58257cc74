/**
 * Handles `POST /v1/images/edits`, `/v1/audio/transcriptions` and `/v1/audio/translations`. Relays an upload to one
 * provider, and the response back to the caller.
 */
import type { MediaCall } from '../../core/call.ts';
import type { MediaCandidate } from '../../core/candidate.ts';
import { noTokens } from '../../core/pricing.ts';
import { modelNameAt } from '../../core/request-format.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import { type AudioMeter, createAudioMeter, usualBytesPerSecond } from '../../dialects/media/audio-length.ts';
import { charactersPerSecond } from '../../dialects/media/upload-usage.ts';
import { countEditedImages, type UploadBody, type UploadFields, type UploadKind } from '../../dialects/media/uploads.ts';
import { assertTakesUploads, sendUpload, type UploadResponse } from '../../vendors/upload.ts';
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

/** The vendors that we know don't accept recordings of more than ten hours. */
const maxRecordingSeconds = 36_000;
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
    const { body, meter, sentBytes, readHead } = watchBody(bodyFor(model), kind);
    // The cost reservation of a transcription depends on the format of the recording.
    if (hasCostCeiling && kind.route === 'transcriptions') await readHead();
    const source = { kind, fields, meter, sentBytes };
    const usageWhenCut = () => (kind.route === 'images' && sentBytes() < body.lengthBytes ? uncharged : estimateCharge(source, ''));
    const request = { call, project, candidate, texts, ...estimateUsage(call, { ...source, countImages, candidate }), usageWhenCut };
    return mediaCalls.stream(request, cancellation, async (onRequestId) => {
      const response = await sendUpload(httpClient, {
        ...{ provider, kind, model, body, signal: cancellation.signal, now: () => clock.now(), onRequestId },
      });
      return { ...response, usage: () => completeUsage(source, response) };
    });
  };
}

interface WatchedBody {
  readonly body: UploadBody;
  readonly meter: AudioMeter;
  readonly sentBytes: () => number;
  /** Reads until we know the format of the recording. Rejects with the same errors as `readUpload`. */
  readonly readHead: () => Promise<void>;
}

function watchBody(body: UploadBody, { route }: UploadKind): WatchedBody {
  const meter = createAudioMeter(body);
  const unread = body.chunks[Symbol.asyncIterator]();
  const held: Buffer[] = [];
  let sentBytes = 0;
  const read = async (): Promise<Buffer | null> => {
    const { value, done } = await unread.next();
    if (done) return null;
    if (route === 'transcriptions') meter.push(value);
    return value;
  };
  async function readHead(): Promise<void> {
    while (!meter.isIdentified()) {
      const chunk = await read();
      if (chunk === null) return;
      held.push(chunk);
    }
  }
  async function* chunks(): AsyncGenerator<Buffer, void> {
    for (let chunk = held.shift() ?? (await read()); chunk !== null; chunk = held.shift() ?? (await read())) {
      sentBytes += chunk.length;
      yield chunk;
    }
  }
  return { body: { ...body, chunks: chunks() }, meter, sentBytes: () => sentBytes, readHead };
}

type UploadSource = Pick<UploadCall, 'kind' | 'fields'> & Pick<WatchedBody, 'meter' | 'sentBytes'>;
type Charge = Required<Pick<MediaCallRequest, 'units' | 'estimatedTokens'>>;
type ReportedUsage = ReturnType<UploadResponse['usage']>;

/** An image can't be edited before its upload is complete. */
const uncharged: Charge = { units: { images: 0 }, estimatedTokens: noTokens };

/**
 * Estimates what the vendor bills for the bytes that we've sent so far. Callers may send the fields after the file, so
 * we only know them by the end.
 */
function estimateCharge({ kind, fields, meter, sentBytes }: UploadSource, transcript: string, minSeconds = 0): Charge {
  if (kind.route === 'images') return estimateImages(fields);
  const most = Math.min(maxRecordingSeconds, meter.maxSeconds() ?? maxRecordingSeconds);
  const seconds = Math.min(most, Math.max(minSeconds, meter.estimateSeconds(sentBytes())));
  const input = countPromptTokens(fields) + toAudioTokens(seconds);
  return { units: { seconds }, estimatedTokens: { ...noTokens, input, output: estimateTokens(transcript.length) } };
}

/** Returns what the vendor has reported, and adds an estimate of what it hasn't reported. */
function completeUsage(source: UploadSource, { usage, texts, isComplete }: UploadResponse): NonNullable<ReportedUsage> & Partial<Charge> {
  const reported = usage();
  const transcript = texts().reduce((longest, text) => (text.length > longest.length ? text : longest), '');
  const charge = estimateCharge(source, transcript, reported?.units.seconds ?? transcript.length / charactersPerSecond);
  const tokens = reported?.tokens ?? null;
  if (!reported) return { ...charge, unitsEstimated: source.kind.route === 'transcriptions', tokens };
  if (source.kind.route === 'transcriptions') return reported.unitsEstimated ? { ...charge, unitsEstimated: true, tokens } : reported;
  const missing = (charge.units.images ?? 0) - (reported.units.images ?? 0);
  if (isComplete() || missing <= 0) return reported;
  // The vendor still generates the remaining images, even though nobody will receive them.
  return {
    units: { ...reported.units, images: charge.units.images ?? 0 },
    unitsEstimated: true,
    tokens: tokens && { ...tokens, output: tokens.output + missing * tokensPerImage },
  };
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
    meter,
  }: UploadSource & Pick<UploadCall, 'countImages'> & { readonly candidate: MediaCandidate },
): EstimatedUsage {
  const promptTokens = countPromptTokens(fields);
  if (route === 'images') {
    const images = countEditedImages(fields);
    return {
      ...estimateImages(fields),
      maxInputTokens: promptTokens + Math.max(1, countImages()) * maxImageTokens(candidate, undefined),
      maxOutputTokens: images * maxImageTokens(candidate, fields.get('size')),
    };
  }
  const seconds = bodyBytes / usualBytesPerSecond;
  const maxSeconds = Math.min(maxRecordingSeconds, meter.maxSeconds() ?? maxRecordingSeconds);
  const estimatedTokens = { ...noTokens, input: promptTokens + toAudioTokens(seconds) };
  return {
    ...{ units: { seconds }, unitsEstimated: true, estimatedTokens, maxUnits: { seconds: maxSeconds } },
    ...{ maxInputTokens: promptTokens + toAudioTokens(maxSeconds), maxOutputTokens: Math.ceil(maxSeconds * maxTextTokensPerSecond) },
    likelyTokens: estimatedTokens.input + Math.ceil(seconds * maxTextTokensPerSecond),
  };
}

function estimateImages(fields: UploadFields): Charge {
  const images = countEditedImages(fields);
  const estimatedTokens = { ...noTokens, input: countPromptTokens(fields) + tokensPerImage, output: images * tokensPerImage };
  return { units: { images, imageTokens: tokensPerImage }, estimatedTokens };
}

function countPromptTokens(fields: UploadFields): number {
  return estimateTokens(fields.get('prompt')?.length ?? 0);
}

function toAudioTokens(seconds: number): number {
  return Math.ceil(seconds * audioTokensPerSecond);
}
