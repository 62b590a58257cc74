/**
 * Reads the request body of `POST /v1/video/generations` and builds the vendor's body from it
 * (docs/api/reference.md#video, docs/vendors.md). We only forward fields that the caller sent, because vendors reject
 * parameters that a model doesn't support. The JSON text of their values doesn't change.
 */
import { gatewayError } from '../../core/errors.ts';
import { asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { rejectDuplicateKeys } from '../json/body-members.ts';
import { joinExcess, toRuleText } from './image-speech.ts';

const parameterNames = {
  aspect_ratio: 'aspectRatio',
  duration_seconds: 'durationSeconds',
  resolution: 'resolution',
  negative_prompt: 'negativePrompt',
  seed: 'seed',
  n: 'sampleCount',
} as const;

const memberNames = ['model', 'prompt', 'image', ...Object.keys(parameterNames)];

export const videoBodyKeys: ReadonlySet<string> = new Set(memberNames);

export interface VideoRequestSummary {
  /** Null if the caller wants the default model. */
  readonly model: string | null;
  /** The length of each video, which vendors bill by. */
  readonly durationMs: number;
  readonly samples: number;
  /** The strings of all fields except the model, for content rules. We leave out the base64 of an image. */
  readonly texts: readonly string[];
  /**
   * The vendor's body. If the prompt, `n`, the length or the image is invalid, it's the message for `bad_request`
   * instead.
   */
  readonly body: Uint8Array | string;
}

/** Vendors generate videos of this length by default. */
const defaultSeconds = 8;
const maxSeconds = 86_400;
/** We reserve the cost of at most this many videos, so we reject requests for more. */
const maxSamples = 100;

/**
 * Throws `bad_json` for duplicate keys and `bad_model` for an invalid model. Most other mistakes are left to the
 * vendor.
 */
export function parseVideoRequest(body: Buffer, spans: BodySpans): VideoRequestSummary {
  rejectDuplicateKeys(spans, memberNames);
  const textAt = (name: string): string | null => {
    const member = spans.members.get(name);
    return member && member.kind !== 'null' ? body.toString('utf8', member.value.start, member.value.end) : null;
  };
  const valueAt = (name: string): unknown => parseJson(textAt(name) ?? 'null');

  const prompt = asString(valueAt('prompt')) ?? '';
  const parameters = Object.entries(parameterNames).flatMap(([name, vendorName]) => {
    const text = textAt(name);
    // Leave out `n: 1`, because it's the default and some models don't know the parameter.
    return text === null || (name === 'n' && text === '1') ? [] : [`${JSON.stringify(vendorName)}:${text}`];
  });
  const writeBody = (): Buffer | string => {
    if (prompt.trim() === '') return 'prompt: must be a non-empty string';
    const samples = valueAt('n');
    if (samples !== null && !(Number.isSafeInteger(samples) && Number(samples) > 0 && Number(samples) <= maxSamples))
      return `n: must be a whole number from 1 to ${maxSamples}`;
    if ((asPositiveNumber(valueAt('duration_seconds')) ?? 0) > maxSeconds) return `duration_seconds: must be at most ${maxSeconds}`;
    const image = valueAt('image');
    const vendorImage = image === null ? null : toVendorImage(image);
    if (image !== null && vendorImage === null) return 'image: b64_json and mime_type are required';
    const instance = `{"prompt":${textAt('prompt')}${image === null ? '' : `,"image":${JSON.stringify(vendorImage)}`}}`;
    return Buffer.from(`{"instances":[${instance}],"parameters":{${parameters.join(',')}}}`);
  };
  return {
    model: parseModel(valueAt('model')),
    durationMs: Math.round(1_000 * Math.min(maxSeconds, asPositiveNumber(valueAt('duration_seconds')) ?? defaultSeconds)),
    samples: Math.min(maxSamples, Math.max(1, Math.round(asPositiveNumber(valueAt('n')) ?? 1))),
    texts: joinExcess([
      ...['prompt', ...Object.keys(parameterNames)].flatMap((name) => toRuleText(textAt(name) ?? 'null')),
      ...toRuleText(textAt('image') ?? 'null').filter((text) => /[^A-Za-z0-9+/=_-]/.test(text)),
    ]),
    body: writeBody(),
  };
}

/**
 * Returns the provider and the model, or null for the default model. The provider ends at the first slash. Throws
 * `bad_model`.
 */
function parseModel(value: unknown): string | null {
  if (value === null || value === '') return null;
  if (typeof value !== 'string' || value.length > maxModelLength || !/^(?:[A-Za-z0-9._:-]+\/)?[A-Za-z0-9._:-]+$/.test(value))
    throw gatewayError('bad_model', {
      message: 'model must look like <provider>/<model> and may only contain letters, digits, ".", "_", "-" and ":"',
    });
  return value;
}

/** Model names in the catalog have the same length limit. */
const maxModelLength = 300;

/** Returns null if the image is invalid. */
function toVendorImage(image: unknown): JsonObject | null {
  const { b64_json: base64, mime_type: mimeType } = isObject(image) ? image : {};
  if (typeof base64 !== 'string' || base64 === '' || typeof mimeType !== 'string' || mimeType === '') return null;
  return { bytesBase64Encoded: base64, mimeType };
}

/** Accepts both numbers and numeric strings for a length, as vendors do. */
function asPositiveNumber(value: unknown): number | null {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) && number > 0 ? number : null;
}
