/**
 * Asks a vendor for images, in one of two shapes (vendor facts 1.6, 5): OpenAI's, and the `artifacts` of NVIDIA and Stability. Whatever the
 * vendor answers with, base64 comes back. What is asked throws VendorError.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { gatewayError, VendorError } from '../core/errors.ts';
import { asArray, asCount, asObject, asString, isObject, parseJson } from '../core/json/narrow.ts';
import type { Tokens } from '../core/pricing.ts';
import { parseResponsesUsage } from '../dialects/contract/token-usage.ts';
import type { MediaFields } from '../dialects/media/image-speech.ts';
import { formatFields, getImageCount, parseSize } from '../dialects/media/image-speech.ts';
import type { HttpResponse, VendorHttpClient } from './http-client.ts';
import { readBody } from './http-client.ts';
import type { MediaProvider } from './media.ts';
import { fetchVendorFile, getHeader, sendMediaRequest, vendorErrorText } from './media.ts';

export interface ImageRequest {
  readonly provider: MediaProvider;
  /** The vendor's own id. */
  readonly model: string;
  readonly fields: MediaFields;
  readonly now: () => number;
}

export interface ImageResponse {
  readonly status: number;
  /** Unix seconds; null: the vendor gave none. */
  readonly created: number | null;
  /** Base64, one text an image. */
  readonly images: readonly string[];
  readonly tokens: Tokens | null;
}

/** Ten images of ten megabytes, in base64. */
const maxResponseBytes = 128 * 1024 * 1024;

/** What can be made ready before the vendor is asked. */
export interface PreparedImages {
  /** How many the vendor is asked for. */
  readonly count: number;
  readonly send: (httpClient: VendorHttpClient) => Promise<ImageResponse>;
}

/** Throws GatewayError `bad_shape`, and `bad_json` for what the shape cannot say. */
export function prepareImages(request: ImageRequest): PreparedImages {
  switch (request.provider.imageShape) {
    case 'openai':
      return prepareOpenAi(request);
    case 'artifacts':
      return prepareArtifacts(request);
    default:
      throw gatewayError('bad_shape');
  }
}

/** Defaults of the specification (4.6); what the caller sent goes on as it was written. */
function prepareOpenAi({ provider, model, fields, now }: ImageRequest): PreparedImages {
  const body = formatFields({
    model: JSON.stringify(model),
    prompt: fields.prompt,
    n: fields.n ?? '1',
    size: fields.size ?? '"1024x1024"',
    response_format: provider.imageResponseFormat ? '"b64_json"' : undefined,
  });
  const url = new URL(`${provider.baseUrl}/images/generations`);
  return {
    count: getImageCount(fields),
    async send(httpClient) {
      const response = await sendMediaRequest(httpClient, provider, { url, method: 'POST', accept: 'application/json', body, now });
      return readOpenAiImages(httpClient, response, { provider, now });
    },
  };
}

async function readOpenAiImages(
  httpClient: VendorHttpClient,
  response: HttpResponse,
  { provider, now }: Pick<ImageRequest, 'provider' | 'now'>,
): Promise<ImageResponse> {
  const { status } = response;
  const answer = await readObject(response);
  const rows = asArray(answer.data);
  if (rows.length === 0) throw unreadable('the answer holds no image', status);
  const images: string[] = [];
  let remainingBytes = maxResponseBytes;
  // One after the other: they are all held until the last is there.
  for (const row of rows) {
    const { b64_json, url: address } = asObject(row);
    const image = isNonEmptyString(b64_json)
      ? b64_json
      : isNonEmptyString(address)
        ? await fetchImage(httpClient, { provider, address, remainingBytes, now })
        : null;
    if (image === null) throw unreadable('an image of the answer has neither b64_json nor url', status);
    remainingBytes -= image.length;
    images.push(image);
  }
  return { status, created: asCount(answer.created) ?? null, images, tokens: parseResponsesUsage(answer.usage) };
}

interface ImageFile {
  readonly provider: MediaProvider;
  readonly address: string;
  readonly remainingBytes: number;
  readonly now: () => number;
}

/** A file that the vendor answers for; that it cannot be had makes the vendor's answer unreadable, whatever the reason. */
async function fetchImage(httpClient: VendorHttpClient, { provider, address, remainingBytes, now }: ImageFile): Promise<string> {
  try {
    const response = await fetchVendorFile(httpClient, { provider, address, accept: 'image/*', now });
    const bytes = await readBody(response.body, Math.floor((remainingBytes / 4) * 3));
    if (bytes.length === 0) throw new VendorError('unreadable', 'it is empty');
    return bytes.toString('base64');
  } catch (cause) {
    if (!(cause instanceof VendorError) || cause.kind === 'stopped') throw cause;
    throw new VendorError('unreadable', `an image cannot be fetched from the vendor: ${cause.message}`, { status: cause.status, cause });
  }
}

/** The model is in the path, the size in two members; only what the caller sent and the number of steps is named (vendor facts 5.1). */
function prepareArtifacts({ provider, model, fields, now }: ImageRequest): PreparedImages {
  const size = parseSize(fields.size);
  const body = formatFields({
    prompt: fields.prompt,
    width: size?.width,
    height: size?.height,
    steps: fields.steps ?? '4',
    seed: fields.seed,
    cfg_scale: fields.cfg_scale,
  });
  const url = new URL(`${provider.baseUrl}/${model.split('/').map(encodeURIComponent).join('/')}`);
  return {
    count: 1,
    async send(httpClient) {
      const first = await sendMediaRequest(httpClient, provider, { url, method: 'POST', accept: 'application/json', body, now });
      const response = first.status === 202 ? await pollJob(httpClient, provider, first, now) : first;
      const { status } = response;
      const { artifacts } = await readObject(response);
      const images = asArray(artifacts).map((artifact) => parseArtifact(asObject(artifact), provider, status));
      if (images.length === 0) throw unreadable('the answer holds no image', status);
      return { status, created: null, images, tokens: null };
    },
  };
}

function parseArtifact({ base64, finishReason }: Readonly<Record<string, unknown>>, provider: MediaProvider, status: number): string {
  if (isNonEmptyString(base64)) return base64;
  const reason = asString(finishReason);
  if (reason === null || reason === 'SUCCESS') throw unreadable('an image of the answer is empty', status);
  throw new VendorError('status', `the vendor answered ${status} without an image: ${vendorErrorText(reason, provider)}`, { status });
}

/** NVIDIA answers for the slow jobs of one host at another (vendor facts 5.1); every other vendor at its own. */
const jobHosts: Readonly<Record<string, string>> = {
  'https://ai.api.nvidia.com': 'https://api.nvcf.nvidia.com',
  'https://integrate.api.nvidia.com': 'https://api.nvcf.nvidia.com',
};

const initialBackoffMs = 250;
const maxBackoffMs = 2_000;

/** Asks for a job until it is done, at most as long as the provider may take for its first byte. */
async function pollJob(
  httpClient: VendorHttpClient,
  provider: MediaProvider,
  accepted: HttpResponse,
  now: () => number,
): Promise<HttpResponse> {
  const id = getHeader(accepted, 'nvcf-reqid') ?? '';
  if (!/^[A-Za-z0-9-]{1,128}$/.test(id)) throw unreadable('the vendor accepted the job without naming it', accepted.status);
  accepted.release();
  const { origin } = provider.hosts;
  const url = new URL(`${jobHosts[origin] ?? origin}/v2/nvcf/pexec/status/${id}`);
  const deadline = now() + provider.firstByteTimeoutMs;
  for (let waitMs = initialBackoffMs; now() + waitMs <= deadline; waitMs = Math.min(2 * waitMs, maxBackoffMs)) {
    await sleep(waitMs);
    const response = await sendMediaRequest(httpClient, provider, { url, method: 'GET', accept: 'application/json', body: null, now });
    if (response.status !== 202) return response;
    response.release();
  }
  throw new VendorError('timeout', 'the images were not ready in time');
}

async function readObject(response: HttpResponse): Promise<Readonly<Record<string, unknown>>> {
  const { status } = response;
  const bytes = await readBody(response.body, maxResponseBytes).catch((cause: unknown) => {
    // What broke off after it had begun is an answer that cannot be read.
    throw cause instanceof VendorError && cause.kind === 'broken' ? unreadable(cause.message, status, cause) : cause;
  });
  const answer = parseJson(bytes.toString('utf8'));
  if (!isObject(answer)) throw unreadable('the answer is no JSON object', status);
  return answer;
}

function isNonEmptyString(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function unreadable(message: string, status: number, cause?: VendorError): VendorError {
  return new VendorError('unreadable', message, { status, cause });
}
