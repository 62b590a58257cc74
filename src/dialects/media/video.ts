/**
 * The body of `POST /v1/video/generations` (shapes 11) and the vendor's body made of it (vendor facts 7). Only what the caller gave goes to the
 * vendor, as the JSON text in which it was written: vendors refuse parameters that a model does not know. Pure.
 */
import { gatewayError } from '../../core/errors.ts';
import { asString, isObject, parseJson } from '../../core/json/narrow.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { findDuplicateKey } from '../json/body-members.ts';

/** Members of the caller that become parameters of the vendor. */
const parameterNames = {
  aspect_ratio: 'aspectRatio',
  duration_seconds: 'durationSeconds',
  resolution: 'resolution',
  negative_prompt: 'negativePrompt',
  seed: 'seed',
  n: 'sampleCount',
} as const;

const memberNames = ['model', 'prompt', 'image', ...Object.keys(parameterNames)];

/** All members of a body that are read. */
export const videoBodyKeys: ReadonlySet<string> = new Set(memberNames);

export interface VideoRequestSummary {
  /** Null: the default one. */
  readonly model: string | null;
  /** What one video is charged for, and how many are asked for. */
  readonly durationMs: number;
  readonly samples: number;
  /** What is to be seen, and what is not. */
  readonly texts: readonly string[];
  /** In the vendor's form. Throws `bad_request` for a prompt or an image that is none: who may not ask need not ask well. */
  readonly writeBody: () => Buffer;
}

/** The length that the vendor makes where none is asked for. */
const defaultSeconds = 8;
const maxSeconds = 86_400;

/** Throws `bad_json` for what two readers could read differently, and `bad_model`; nearly all else is the vendor's to refuse. */
export function parseVideoRequest(body: Buffer, spans: BodySpans): VideoRequestSummary {
  const repeated = findDuplicateKey(spans, memberNames);
  if (repeated !== null) throw gatewayError('bad_json', { message: `${repeated}: stands more than once` });
  const textAt = (name: string): string | null => {
    const member = spans.members.get(name);
    return member && member.kind !== 'null' ? body.toString('utf8', member.value.start, member.value.end) : null;
  };
  const valueAt = (name: string): unknown => parseJson(textAt(name) ?? 'null');

  const prompt = asString(valueAt('prompt')) ?? '';
  const parameters = Object.entries(parameterNames).flatMap(([name, vendorName]) => {
    const text = textAt(name);
    // One video is what is made without the parameter, which not every model knows.
    return text === null || (name === 'n' && text === '1') ? [] : [`${JSON.stringify(vendorName)}:${text}`];
  });
  const writeBody = (): Buffer => {
    if (prompt.trim() === '') throw gatewayError('bad_request', { message: 'prompt: a text is required' });
    const image = valueAt('image');
    const instance = `{"prompt":${textAt('prompt')}${image === null ? '' : `,"image":${JSON.stringify(toVendorImage(image))}`}}`;
    return Buffer.from(`{"instances":[${instance}],"parameters":{${parameters.join(',')}}}`);
  };
  return {
    model: parseModel(valueAt('model')),
    durationMs: Math.round(1_000 * Math.min(maxSeconds, asPositiveNumber(valueAt('duration_seconds')) ?? defaultSeconds)),
    samples: Math.min(100, Math.max(1, Math.round(asPositiveNumber(valueAt('n')) ?? 1))),
    texts: [prompt, asString(valueAt('negative_prompt')) ?? ''],
    writeBody,
  };
}

/** Only the first slash splits off the provider (shapes 21). */
function parseModel(value: unknown): string | null {
  if (value === null || value === '') return null;
  if (typeof value !== 'string' || value.length > maxModelLength || !/^(?:[A-Za-z0-9._:-]+\/)?[A-Za-z0-9._:-]+$/.test(value))
    throw gatewayError('bad_model', { message: 'model must be <provider>/<model> of letters, digits, ".", "_", "-" and ":"' });
  return value;
}

/** As the catalog bounds the ids of models. */
const maxModelLength = 300;

function toVendorImage(image: unknown): unknown {
  const { b64_json: base64, mime_type: mimeType } = isObject(image) ? image : {};
  if (typeof base64 !== 'string' || base64 === '' || typeof mimeType !== 'string' || mimeType === '')
    throw gatewayError('bad_request', { message: 'image: b64_json and mime_type are required' });
  return { bytesBase64Encoded: base64, mimeType };
}

/** Vendors take the length as a number and as a text. */
function asPositiveNumber(value: unknown): number | null {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) && number > 0 ? number : null;
}
