/**
 * Implements Google's video API. Starting a video returns an operation. The first two polls say that it's still
 * running, and the third one returns its files.
 */
import { errorResponse, gemini } from './errors.ts';
import { asCount, asObject, asObjects, asString } from './json.ts';
import { binaryResponse, type DemoRequest, type DemoResponse, jsonResponse } from './response.ts';

const pollsUntilDone = 2;
const maxOperations = 1_000;
const maxSamples = 4;

/** Remembers the operations, but drops the oldest ones if there are too many. */
export function createVideos() {
  const operations = new Map<string, { readonly samples: number; polls: number }>();
  return {
    /** POST /v1beta/models/{model}:predictLongRunning */
    start({ requestNumber, model, json }: DemoRequest): DemoResponse {
      if (asString(asObjects(json.instances)[0]?.prompt) === '')
        return errorResponse(gemini, { status: 400, message: 'instances[0].prompt: required.' });
      const name = `models/${model}/operations/demo${requestNumber}`;
      const [oldest] = operations.keys();
      if (oldest !== undefined && operations.size >= maxOperations) operations.delete(oldest);
      operations.set(name, { samples: Math.min(asCount(asObject(json.parameters).sampleCount) ?? 1, maxSamples), polls: 0 });
      return jsonResponse({ name });
    },

    /** GET /v1beta/models/{model}/operations/{id} */
    poll({ pathParam: name, origin }: DemoRequest): DemoResponse {
      const operation = operations.get(name);
      if (operation === undefined) return errorResponse(gemini, { status: 404, message: `Operation not found: ${name}` });
      operation.polls += 1;
      if (operation.polls <= pollsUntilDone)
        return jsonResponse({ name, metadata: { progressPercent: Math.floor((100 * (operation.polls - 1)) / pollsUntilDone) } });
      const generatedSamples = Array.from({ length: operation.samples }, (_, index) => ({
        video: { uri: `${origin}/v1beta/files/${name.slice(name.lastIndexOf('/') + 1)}-${index}:download?alt=media` },
      }));
      return jsonResponse({ name, done: true, response: { generateVideoResponse: { generatedSamples } } });
    },

    /** GET /v1beta/files/{id}:download */
    download: (): DemoResponse => binaryResponse('video/mp4', emptyMp4),
  };
}

/** The smallest file that programs take for an MP4. It has a brand box and an empty media data box. */
export const emptyMp4 = Buffer.from('\0\0\0\x18ftypisom\0\0\x02\0isommp42\0\0\0\x08mdat', 'latin1');
