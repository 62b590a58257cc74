/**
 * Handles POST /v1/images/generations and /v1/images/edits. The result is a valid PNG file of the requested size, in a
 * color that depends on the prompt.
 */
import { crc32, deflateSync } from 'node:zlib';
import { badRequest } from './errors.ts';
import { asCount, asString } from './json.ts';
import { createdAt, type DemoRequest, type DemoResponse, jsonResponse } from './response.ts';
import { countTokens, hashText } from './tokens.ts';

const maxSide = 4_096;
export const maxImages = 10;
const outputTokensPerImage = 1_056;

/** Always returns base64, whatever `response_format` says, as current image models do. */
export function handleImages({ json }: DemoRequest): DemoResponse {
  const prompt = asString(json.prompt);
  const size = parseSize(asString(json.size) || '1024x1024');
  if (prompt === '') return badRequest("Missing required parameter: 'prompt'.");
  if (size === null) return badRequest(`Invalid 'size': expected {width}x{height} with sides from 1 to ${maxSide}.`);
  const count = Math.min(asCount(json.n) ?? 1, maxImages);
  const data = Array.from({ length: count }, (_, index) => ({ b64_json: drawPng(size, colourOf(prompt, index)).toString('base64') }));
  const inputTokens = countTokens(prompt.length);
  const outputTokens = outputTokensPerImage * count;
  const usage = {
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    input_tokens_details: { text_tokens: inputTokens, image_tokens: 0 },
  };
  return jsonResponse({ created: createdAt, data, usage });
}

/** Handles an edit, whose body is multipart, by simply drawing a new image. */
export function handleImageEdits(request: DemoRequest): DemoResponse {
  const { json } = request;
  if (json.image === undefined && json['image[]'] === undefined) return badRequest("Missing required parameter: 'image'.");
  return handleImages({ ...request, json: { ...json, n: Number(asString(json.n)) } });
}

export function colourOf(prompt: string, index: number): number {
  return hashText(`${prompt}#${index}`) & 0xffffff;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

export function parseSize(text: string): Size | null {
  if (text === 'auto') return { width: 1_024, height: 1_024 };
  const [, width = 0, height = 0] = (/^(\d{1,4})x(\d{1,4})$/.exec(text) ?? []).map(Number);
  return width >= 1 && height >= 1 && width <= maxSide && height <= maxSide ? { width, height } : null;
}

const pngSignature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/**
 * Draws an image with one bit per pixel, in which all pixels have the palette's first color. That way, even the largest
 * image has only a few hundred bytes.
 */
export function drawPng(size: Size, colour: number): Buffer {
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
