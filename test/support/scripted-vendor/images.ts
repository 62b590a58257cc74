/**
 * Returns images as URLs, and implements the image format of NVIDIA and Stability (POST /v1/genai/{publisher}/{model}).
 */
import { badRequest, errorResponse, openai } from '../../../src/demo-vendor/errors.ts';
import { colourOf, drawPng, handleImages, maxImages, parseSize } from '../../../src/demo-vendor/images.ts';
import { asCount, asObjects, asString } from '../../../src/demo-vendor/json.ts';
import { binaryResponse, type DemoRequest, type DemoResponse, jsonResponse } from '../../../src/demo-vendor/response.ts';
import { hashText } from '../../../src/demo-vendor/tokens.ts';
import { artifacts } from './families.ts';
import { mapJson, scriptOf } from './response.ts';

/** Returns images in OpenAI's format. They're in base64, or URLs if the request or the model's name asks for them. */
export function handleScriptedImages(request: DemoRequest): DemoResponse {
  const { json, origin } = request;
  const { image } = scriptOf(request);
  if (image === 'b64-only' && json.response_format !== undefined) return badRequest("Unknown parameter: 'response_format'.");
  const outgoing = handleImages(request);
  if (image !== 'url' && !(image === 'normal' && json.response_format === 'url')) return outgoing;
  const size = parseSize(asString(json.size) || 'auto');
  return mapJson(outgoing, (body) =>
    size === null || body.data === undefined
      ? body
      : {
          ...body,
          data: asObjects(body.data).map((_, index) => ({
            url: `${origin}/files/${size.width}x${size.height}-${colourOf(asString(json.prompt), index)}.png`,
          })),
        },
  );
}

export function handleArtifacts(request: DemoRequest): DemoResponse {
  const { json } = request;
  const prompt = asString(json.prompt);
  const size = parseSize(`${json.width ?? 1024}x${json.height ?? 1024}`);
  if (prompt === '' || size === null)
    return errorResponse(artifacts, { status: 422, message: 'prompt, width or height is not one this model can draw.' });
  if (scriptOf(request).filtered) return jsonResponse({ artifacts: [{ base64: '', finishReason: 'CONTENT_FILTERED', seed: 0 }] });
  const seed = asCount(json.seed) ?? hashText(prompt);
  const count = Math.min(asCount(json.samples) ?? 1, maxImages);
  const files = Array.from({ length: count }, (_, index) => ({
    base64: drawPng(size, colourOf(prompt, seed + index)).toString('base64'),
    finishReason: 'SUCCESS',
    seed: seed + index,
  }));
  return jsonResponse({ artifacts: files });
}

/**
 * Handles GET /files/{width}x{height}-{colour}.png, which is where the URLs in responses point. The name is enough to
 * create the file.
 */
export function handleImageFile({ pathParam }: DemoRequest): DemoResponse {
  const parts = /^(\d+x\d+)-(\d+)$/.exec(pathParam);
  const size = parseSize(parts?.[1] ?? '');
  return size === null
    ? errorResponse(openai, { status: 404, message: 'No such file.' })
    : binaryResponse('image/png', drawPng(size, Number(parts?.[2]) & 0xffffff));
}
