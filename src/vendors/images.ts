/**
 * Requests images in one of two formats, which are OpenAI's and the `artifacts` format of NVIDIA and Stability
 * (docs/vendors.md). The result is always base64. `send` throws VendorErrors.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { backoffDelays } from '../core/backoff.ts';
import { gatewayError, VendorError } from '../core/errors.ts';
import { asArray, asCount, asObject, type JsonObject } from '../core/json/narrow.ts';
import type { Tokens } from '../core/pricing.ts';
import { modelNameAt } from '../core/request-format.ts';
import { parseResponsesUsage } from '../dialects/contract/token-usage.ts';
import { asNonEmptyString } from '../dialects/json/lossless-json.ts';
import { formatFields, getImageCount, parseSize, pickFields } from '../dialects/media/image-speech.ts';
import type { VendorHttpClient } from './http-client.ts';
import { getHeader, readJsonObject } from './http-response.ts';
import { fetchVendorFile, type MediaProvider, type MediaRequest, type OnRequestId, sendMediaRequest } from './media.ts';
import { encodeSegment, requestUrl } from './request-url.ts';
import { type HttpResponse, ResponseTooLargeError } from './response-body.ts';
import { vendorErrorText } from './strip-secrets.ts';

export interface ImageResponse {
  readonly status: number;
  /** The Unix time in seconds. Null if the vendor didn't report it. */
  readonly created: number | null;
  readonly images: readonly string[];
  /** How many images the vendor generated, including those that we couldn't download. */
  readonly generated: number;
  readonly tokens: Tokens | null;
}

/**
 * Thrown if the vendor has generated images and bills them, but none of them can be used. `generated` is null if we
 * don't know how many, and `tokens` is null if the vendor didn't report any.
 */
export class UnusableImagesError extends VendorError {
  readonly tokens: Tokens | null;
  readonly generated: number | null;

  constructor(
    message: string,
    { status, cause, tokens, generated = null }: { status: number; cause?: unknown; tokens: Tokens | null; generated?: number | null },
  ) {
    super('unreadable', message, { status, cause });
    this.tokens = tokens;
    this.generated = generated;
  }
}

/** This is enough for ten images of ten megabytes each, encoded in base64. */
export const maxImageResponseBytes = 128 * 1024 * 1024;

export interface PreparedImages {
  readonly count: number;
  readonly send: (httpClient: VendorHttpClient, onRequestId: OnRequestId) => Promise<ImageResponse>;
}

/**
 * Prepares the request. Throws GatewayError `bad_shape`, or `bad_json` if the provider's format can't express one of
 * the values.
 */
export function prepareImages(request: MediaRequest): PreparedImages {
  switch (request.provider.imageShape) {
    case 'openai':
      return prepareOpenAi(request);
    case 'artifacts':
      return prepareArtifacts(request);
    default:
      throw gatewayError('bad_shape');
  }
}

/**
 * Fields that the caller leaves out get the defaults in docs/api/reference.md#images. The caller's own values don't
 * change.
 */
function prepareOpenAi({ provider, model, fields, takes, now }: MediaRequest): PreparedImages {
  const sentModel = modelNameAt(provider.requests, model);
  const members = {
    model: JSON.stringify(sentModel),
    prompt: fields.prompt,
    n: fields.n ?? '1',
    size: fields.size ?? '"1024x1024"',
    ...pickFields(fields, takes),
  };
  const sendsFormat = provider.imageResponseFormat && takesResponseFormat(model, takes);
  const url = requestUrl(provider, { path: '/images/generations', model: sentModel });
  return {
    count: getImageCount(fields),
    async send(httpClient, onRequestId) {
      const post = (format?: string): Promise<HttpResponse> => {
        const body = formatFields({ ...members, response_format: format });
        return sendMediaRequest(httpClient, provider, { url, method: 'POST', accept: 'application/json', body, now, onRequestId });
      };
      const response = await post(sendsFormat ? '"b64_json"' : undefined).catch((error: unknown) => {
        // The vendor doesn't accept `response_format`, which the catalog didn't say, so retry without it.
        if (sendsFormat && takes === null && rejectsResponseFormat(error)) return post();
        throw error;
      });
      return readOpenAiImages(httpClient, response, { provider, now });
    },
  };
}

function rejectsResponseFormat(error: unknown): boolean {
  if (!(error instanceof VendorError) || (error.status !== 400 && error.status !== 422)) return false;
  return `${error.report.param} ${error.vendorMessage}`.includes('response_format');
}

/**
 * OpenAI's GPT image models always return base64, and reject `response_format`. Its older models don't return base64
 * without it, and neither do vendors with a compatible API.
 */
function takesResponseFormat(model: string, takes: MediaRequest['takes']): boolean {
  return takes === null ? !/^(?:chatgpt|gpt)-image/.test(model) : takes.includes('response_format');
}

async function readOpenAiImages(
  httpClient: VendorHttpClient,
  response: HttpResponse,
  { provider, now }: Pick<MediaRequest, 'provider' | 'now'>,
): Promise<ImageResponse> {
  const { status } = response;
  const body = await readObject(response);
  const inlined = await inlineImages(httpClient, body, { provider, now, status });
  return { status, created: asCount(body.created) ?? null, ...inlined };
}

/**
 * Returns the images of a response in base64. Downloads them if the vendor returned URLs. Leaves out images that the
 * vendor didn't generate, e.g. because of a filter, and images that can't be downloaded. Throws an error if no image is
 * left.
 */
export async function inlineImages(
  httpClient: VendorHttpClient,
  { data, usage }: JsonObject,
  { provider, now, status }: Pick<MediaRequest, 'provider' | 'now'> & { readonly status: number },
): Promise<Pick<ImageResponse, 'images' | 'generated' | 'tokens'>> {
  const rows = asArray(data);
  const tokens = parseResponsesUsage(usage);
  const noImage = 'the response contains no image';
  const images: string[] = [];
  let generated = 0;
  let problem: VendorError | null = null;
  let remainingBytes = maxImageResponseBytes;
  // All images stay in memory until the last one is done, so download them one by one.
  for (const row of rows) {
    const { b64_json, url } = asObject(row);
    const base64 = asNonEmptyString(b64_json);
    const address = asNonEmptyString(url);
    if (base64 === null && address === null) {
      problem ??= unreadable('an image in the response has neither b64_json nor url', status);
      continue;
    }
    generated += 1;
    const image = base64 ?? (await fetchImage(httpClient, address ?? '', { provider, remainingBytes, now }));
    if (image instanceof VendorError) {
      problem ??= image;
      continue;
    }
    remainingBytes -= image.length;
    images.push(image);
  }
  if (images.length === 0 && generated === 0 && tokens === null) throw problem ?? unreadable(noImage, status);
  if (images.length === 0) throw new UnusableImagesError(problem?.message ?? noImage, { status, cause: problem, tokens, generated });
  return { images, generated, tokens };
}

/** Downloads an image. Returns the error if that fails, because the vendor may have sent other images. */
async function fetchImage(
  httpClient: VendorHttpClient,
  address: string,
  { provider, remainingBytes, now }: Pick<MediaRequest, 'provider' | 'now'> & { readonly remainingBytes: number },
): Promise<string | VendorError> {
  try {
    const response = await fetchVendorFile(httpClient, { provider, address, accept: 'image/*', now });
    const bytes = await response.body.readAll(Math.floor((remainingBytes / 4) * 3));
    if (bytes.length === 0) throw new VendorError('unreadable', 'the file is empty');
    return bytes.toString('base64');
  } catch (cause) {
    if (!(cause instanceof VendorError) || cause.kind === 'stopped') throw cause;
    return new VendorError('unreadable', `cannot fetch an image from the vendor: ${cause.message}`, { status: cause.status, cause });
  }
}

/**
 * The `artifacts` format has the model in the path and the size in two fields. Only the number of steps has a default.
 */
function prepareArtifacts({ provider, model, fields, now }: MediaRequest): PreparedImages {
  const size = parseSize(fields.size);
  const body = formatFields({
    prompt: fields.prompt,
    width: size?.width,
    height: size?.height,
    steps: fields.steps ?? '4',
    seed: fields.seed,
    cfg_scale: fields.cfg_scale,
  });
  return {
    count: 1,
    async send(httpClient, onRequestId) {
      const url = new URL(`${provider.baseUrl}/${model.split('/').map(encodeSegment).join('/')}`);
      const request = { url, method: 'POST', accept: 'application/json', body, now, onRequestId } as const;
      const first = await sendMediaRequest(httpClient, provider, request);
      const response = first.status === 202 ? await pollJob(httpClient, provider, first, now) : first;
      const { status } = response;
      const { artifacts } = await readObject(response);
      const parsed = asArray(artifacts).map((artifact) => parseArtifact(asObject(artifact), provider, status));
      const images = parsed.filter((image) => typeof image === 'string');
      const [problem] = parsed.filter((image) => image instanceof VendorError);
      if (images.length === 0) throw problem ?? unreadable('the response contains no image', status);
      return { status, created: null, images, generated: images.length, tokens: null };
    },
  };
}

/** Returns an error in place of an image that can't be used, because the vendor may have sent other images. */
function parseArtifact(
  { base64, finishReason }: Readonly<Record<string, unknown>>,
  provider: MediaProvider,
  status: number,
): string | VendorError {
  const reason = asNonEmptyString(finishReason);
  const image = asNonEmptyString(base64);
  // If a filter has removed something, some vendors send a blurred or black image.
  const isLost = image === null || reason === 'CONTENT_FILTERED' || reason === 'ERROR';
  if (!isLost) return image;
  if (reason === null || reason === 'SUCCESS')
    return new UnusableImagesError('an image in the response is empty', { status, tokens: null });
  return new VendorError('status', `the vendor responded with ${status} without a usable image: ${vendorErrorText(reason, provider)}`, {
    status,
  });
}

/** Polls a job until it's done, but not longer than the provider's first-byte timeout. */
async function pollJob(
  httpClient: VendorHttpClient,
  provider: MediaProvider,
  accepted: HttpResponse,
  now: () => number,
): Promise<HttpResponse> {
  const id = getHeader(accepted, 'nvcf-reqid') ?? '';
  if (!/^[A-Za-z0-9-]{1,128}$/.test(id)) throw unreadable('the vendor accepted the job without sending its id', accepted.status);
  accepted.body.release();
  const url = new URL(`${provider.imageJobsOrigin ?? provider.hosts.origin}/v2/nvcf/pexec/status/${id}`);
  const deadline = now() + provider.firstByteTimeoutMs;
  for (const waitMs of backoffDelays({ initialMs: 250, maxMs: 2_000 })) {
    if (now() + waitMs > deadline) break;
    await sleep(waitMs);
    const response = await sendMediaRequest(httpClient, provider, { url, method: 'GET', accept: 'application/json', body: null, now });
    if (response.status !== 202) return response;
    response.body.release();
  }
  throw new VendorError('timeout', 'the images were not ready in time');
}

/**
 * Parses a JSON response. A broken connection counts as an unreadable response. A response that's too large contains
 * images that the vendor bills.
 */
function readObject(response: HttpResponse): Promise<JsonObject> {
  const { status } = response;
  return readJsonObject(response, maxImageResponseBytes).catch((cause: unknown) => {
    if (cause instanceof ResponseTooLargeError) throw new UnusableImagesError(cause.message, { status, cause, tokens: null });
    throw cause instanceof VendorError && cause.kind === 'broken' ? unreadable(cause.message, status, cause) : cause;
  });
}

function unreadable(message: string, status: number, cause?: VendorError): VendorError {
  return new VendorError('unreadable', message, { status, cause });
}
