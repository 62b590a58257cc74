/** POST /v1/images/generations, /v1/images/edits and /v1/genai/{publisher}/{model}: valid PNG files of the requested size, in a colour per prompt. */
import { crc32, deflateSync } from 'node:zlib';
import { badRequest, errorResponse } from './errors.ts';
import { asCount, asString } from './json.ts';
import { binaryResponse, createdAt, type IncomingRequest, jsonResponse, type OutgoingResponse } from './response.ts';
import { countTokens, hashText } from './tokens.ts';

const maxSide = 4_096;
const maxImages = 10;
const outputTokensPerImage = 1_056;

/** OpenAI's format: base64, or URLs when the request asks for them. */
export function handleImages({ json, script, origin }: IncomingRequest): OutgoingResponse {
  const prompt = asString(json.prompt);
  const size = parseSize(asString(json.size) || '1024x1024');
  if (prompt === '') return badRequest("Missing required parameter: 'prompt'.");
  if (size === null) return badRequest(`Invalid 'size': expected {width}x{height} with sides from 1 to ${maxSide}.`);
  if (script.image === 'b64-only' && json.response_format !== undefined) return badRequest("Unknown parameter: 'response_format'.");
  const asUrl = script.image === 'url' || (script.image === 'normal' && json.response_format === 'url');
  const count = Math.min(asCount(json.n) ?? 1, maxImages);
  const data = Array.from({ length: count }, (_, index) => {
    const colour = hashText(`${prompt}#${index}`) & 0xffffff;
    return asUrl
      ? { url: `${origin}/files/${size.width}x${size.height}-${colour}.png` }
      : { b64_json: drawPng(size, colour).toString('base64') };
  });
  const inputTokens = countTokens(prompt.length);
  const outputTokens = outputTokensPerImage * count;
  const usage = {
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    input_tokens_details: { text_tokens: inputTokens, image_tokens: 0 },
  };
  return jsonResponse({ created: createdAt, data, ...(script.usage === 'none' ? {} : { usage }) });
}

/** Edits with a multipart body: draws a new image. */
export function handleImageEdits(request: IncomingRequest): OutgoingResponse {
  const { json } = request;
  if (json.image === undefined && json['image[]'] === undefined) return badRequest("Missing required parameter: 'image'.");
  return handleImages({ ...request, json: { ...json, n: Number(asString(json.n)) } });
}

/** The format of NVIDIA's and Stability's images. */
export function handleArtifacts({ json, script }: IncomingRequest): OutgoingResponse {
  const prompt = asString(json.prompt);
  const size = parseSize(`${json.width ?? 1024}x${json.height ?? 1024}`);
  if (prompt === '' || size === null)
    return errorResponse('artifacts', { status: 422, message: 'prompt, width or height is not one this model can draw.' });
  if (script.filtered) return jsonResponse({ artifacts: [{ base64: '', finishReason: 'CONTENT_FILTERED', seed: 0 }] });
  const seed = asCount(json.seed) ?? hashText(prompt);
  const count = Math.min(asCount(json.samples) ?? 1, maxImages);
  const artifacts = Array.from({ length: count }, (_, index) => ({
    base64: drawPng(size, hashText(`${prompt}#${seed + index}`) & 0xffffff).toString('base64'),
    finishReason: 'SUCCESS',
    seed: seed + index,
  }));
  return jsonResponse({ artifacts });
}

/** GET /files/{width}x{height}-{colour}.png: the target of the URLs in responses. The name describes the whole file. */
export function handleImageFile({ pathParam }: IncomingRequest): OutgoingResponse {
  const parts = /^(\d+x\d+)-(\d+)$/.exec(pathParam);
  const size = parseSize(parts?.[1] ?? '');
  return size === null
    ? errorResponse('openai', { status: 404, message: 'No such file.' })
    : binaryResponse('image/png', drawPng(size, Number(parts?.[2]) & 0xffffff));
}

interface Size {
  readonly width: number;
  readonly height: number;
}

function parseSize(text: string): Size | null {
  if (text === 'auto') return { width: 1_024, height: 1_024 };
  const [, width = 0, height = 0] = (/^(\d{1,4})x(\d{1,4})$/.exec(text) ?? []).map(Number);
  return width >= 1 && height >= 1 && width <= maxSide && height <= maxSide ? { width, height } : null;
}

const pngSignature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** Draws one bit per pixel, all in the palette's first colour: even the largest image has only a few hundred bytes. */
function drawPng(size: Size, colour: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(size.width, 0);
  header.writeUInt32BE(size.height, 4);
  header.set([1, 3], 8);
  const palette = Buffer.from([colour >>> 16, (colour >>> 8) & 0xff, colour & 0xff]);
  return Buffer.concat([
    pngSignature,
    chunk('IHDR', header),
    chunk('PLTE', palette),
    chunk('IDAT', deflateSync(Buffer.alloc((1 + Math.ceil(size.width / 8)) * size.height))),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const length = Buffer.alloc(4);
  const checksum = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  checksum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, checksum]);
}
