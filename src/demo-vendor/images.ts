/** POST /v1/images/generations and POST /v1/genai/{publisher}/{model}: real PNG files of the asked size, in the prompt's colour. */
import { crc32, deflateSync } from 'node:zlib';
import { errorAnswer } from './errors.ts';
import { countOf, textOf } from './json.ts';
import { type Answer, bytesAnswer, CREATED_AT, jsonAnswer, type Question } from './response.ts';
import { countTokens, hashOf } from './tokens.ts';

const MAX_SIDE = 4_096;
const MAX_IMAGES = 10;
const OUTPUT_TOKENS = 1_056;

/** OpenAI's shape: base64, or addresses when asked for them. */
export function answerImages({ json, script, origin }: Question): Answer {
  const prompt = textOf(json.prompt);
  const size = sizeOf(textOf(json.size) || '1024x1024');
  if (prompt === '') return refuse("Missing required parameter: 'prompt'.");
  if (size === null) return refuse(`Invalid 'size': expected {width}x{height} with sides from 1 to ${MAX_SIDE}.`);
  if (script.image === 'b64-only' && json.response_format !== undefined) return refuse("Unknown parameter: 'response_format'.");
  const asUrl = script.image === 'url' || (script.image === 'normal' && json.response_format === 'url');
  const count = Math.min(countOf(json.n) ?? 1, MAX_IMAGES);
  const data = Array.from({ length: count }, (_, index) => {
    const colour = hashOf(`${prompt}#${index}`) & 0xffffff;
    return asUrl
      ? { url: `${origin}/files/${size.width}x${size.height}-${colour}.png` }
      : { b64_json: drawPng(size, colour).toString('base64') };
  });
  const inputTokens = countTokens(prompt.length);
  const outputTokens = OUTPUT_TOKENS * count;
  const usage = {
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    input_tokens_details: { text_tokens: inputTokens, image_tokens: 0 },
  };
  return jsonAnswer({ created: CREATED_AT, data, ...(script.usage === 'none' ? {} : { usage }) });
}

/** The shape of NVIDIA's and Stability's images. */
export function answerArtifacts({ json, script }: Question): Answer {
  const prompt = textOf(json.prompt);
  const size = sizeOf(`${json.width ?? 1024}x${json.height ?? 1024}`);
  if (prompt === '' || size === null)
    return errorAnswer('artifacts', { status: 422, message: 'prompt, width or height is not one this model can draw.' });
  if (script.filtered) return jsonAnswer({ artifacts: [{ base64: '', finishReason: 'CONTENT_FILTERED', seed: 0 }] });
  const seed = countOf(json.seed) ?? hashOf(prompt);
  const count = Math.min(countOf(json.samples) ?? 1, MAX_IMAGES);
  const artifacts = Array.from({ length: count }, (_, index) => ({
    base64: drawPng(size, hashOf(`${prompt}#${seed + index}`) & 0xffffff).toString('base64'),
    finishReason: 'SUCCESS',
    seed: seed + index,
  }));
  return jsonAnswer({ artifacts });
}

/** GET /files/{width}x{height}-{colour}.png: what the addresses in answers lead to. Everything about the file is in its name. */
export function answerImageFile({ caught }: Question): Answer {
  const parts = /^(\d+x\d+)-(\d+)$/.exec(caught);
  const size = sizeOf(parts?.[1] ?? '');
  return size === null
    ? errorAnswer('openai', { status: 404, message: 'No such file.' })
    : bytesAnswer('image/png', drawPng(size, Number(parts?.[2]) & 0xffffff));
}

interface Size {
  readonly width: number;
  readonly height: number;
}

function sizeOf(text: string): Size | null {
  if (text === 'auto') return { width: 1_024, height: 1_024 };
  const [, width = 0, height = 0] = (/^(\d{1,4})x(\d{1,4})$/.exec(text) ?? []).map(Number);
  return width >= 1 && height >= 1 && width <= MAX_SIDE && height <= MAX_SIDE ? { width, height } : null;
}

const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const KEPT_PIXELS = 32;
const keptPixels = new Map<string, Buffer>();

/** One bit a pixel, all of them the first colour of the palette: even the largest is a few hundred bytes. */
function drawPng(size: Size, colour: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(size.width, 0);
  header.writeUInt32BE(size.height, 4);
  header.set([1, 3], 8);
  const palette = Buffer.from([colour >>> 16, (colour >>> 8) & 0xff, colour & 0xff]);
  return Buffer.concat([
    PNG_SIGNATURE,
    chunk('IHDR', header),
    chunk('PLTE', palette),
    chunk('IDAT', pixelsOf(size)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Compressing the zeros of a large picture takes longer than all the rest; the few sizes in use are kept. */
function pixelsOf({ width, height }: Size): Buffer {
  const name = `${width}x${height}`;
  const known = keptPixels.get(name);
  if (known !== undefined) return known;
  const pixels = deflateSync(Buffer.alloc((1 + Math.ceil(width / 8)) * height));
  if (keptPixels.size >= KEPT_PIXELS) keptPixels.clear();
  keptPixels.set(name, pixels);
  return pixels;
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const length = Buffer.alloc(4);
  const checksum = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  checksum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, checksum]);
}

function refuse(message: string): Answer {
  return errorAnswer('openai', { status: 400, message });
}
