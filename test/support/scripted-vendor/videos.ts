/**
 * Implements Google's video format. A start returns an operation. Polls first report it as running, and then return its
 * files. A file redirects once. We store the newest 1,000 operations, and return 404 for all other names.
 */

import { errorResponse, gemini } from '../../../src/demo-vendor/errors.ts';
import { asCount, asObject, asObjects, asString } from '../../../src/demo-vendor/json.ts';
import { binaryResponse, type DemoRequest, type DemoResponse, jsonResponse } from '../../../src/demo-vendor/response.ts';
import { emptyMp4 } from '../../../src/demo-vendor/videos.ts';
import { redirectResponse, scriptOf } from './response.ts';
import type { Script } from './scripts.ts';

const maxOperations = 1_000;
const maxSamples = 4;

export interface Videos {
  /** Handles POST /v1beta/models/{model}:predictLongRunning. */
  start(request: DemoRequest): DemoResponse;
  /** Handles GET /v1beta/models/{model}/operations/{id}. */
  poll(request: DemoRequest): DemoResponse;
  /** Handles GET /v1beta/files/{id}:download, which redirects to the file. */
  download(request: DemoRequest): DemoResponse;
  /** Handles GET /v1beta/stored/{id}.mp4, which returns the file. Like Google's signed URLs, it doesn't need a key. */
  stored(request: DemoRequest): DemoResponse;
  clear(): void;
}

interface Operation {
  readonly script: Script;
  readonly samples: number;
  polls: number;
}

/** Creates the store for the operations of one vendor. */
export function createVideos(): Videos {
  const operations = new Map<string, Operation>();

  function start({ requestNumber, model, json }: DemoRequest): DemoResponse {
    if (asString(asObjects(json.instances)[0]?.prompt) === '')
      return errorResponse(gemini, { status: 400, message: 'instances[0].prompt: required.' });
    const name = `models/${model}/operations/demo${requestNumber}`;
    const samples = Math.min(asCount(asObject(json.parameters).sampleCount) ?? 1, maxSamples);
    const [oldest] = operations.keys();
    if (oldest !== undefined && operations.size >= maxOperations) operations.delete(oldest);
    operations.set(name, { script: scriptOf({ model }), samples, polls: 0 });
    return jsonResponse({ name });
  }

  function poll({ pathParam: name, origin }: DemoRequest): DemoResponse {
    const operation = operations.get(name);
    if (operation === undefined) return errorResponse(gemini, { status: 404, message: `Operation not found: ${name}` });
    const { video, filtered } = operation.script;
    operation.polls += 1;
    if (operation.polls <= video.polls)
      return jsonResponse({ name, metadata: { progressPercent: Math.floor((100 * (operation.polls - 1)) / video.polls) } });
    if (video.fails)
      return jsonResponse({ name, done: true, error: { code: 3, message: 'The video could not be made.', status: 'INVALID_ARGUMENT' } });
    const files = Array.from(
      { length: filtered ? 0 : operation.samples },
      (_, index) => `${name.slice(name.lastIndexOf('/') + 1)}-${index}`,
    );
    return jsonResponse({
      name,
      done: true,
      response: {
        '@type': 'type.googleapis.com/google.ai.generativelanguage.v1beta.PredictLongRunningResponse',
        generateVideoResponse: {
          ...(filtered
            ? {}
            : { generatedSamples: files.map((file) => ({ video: { uri: `${origin}/v1beta/files/${file}:download?alt=media` } })) }),
          raiMediaFilteredCount: filtered ? operation.samples : 0,
          raiMediaFilteredReasons: filtered ? ['The scripted vendor was asked to filter this video.'] : [],
        },
      },
    });
  }

  function download({ pathParam: file, origin }: DemoRequest): DemoResponse {
    const name = `/operations/${file.slice(0, file.lastIndexOf('-'))}`;
    const operation = [...operations].find(([key]) => key.endsWith(name))?.[1];
    if (operation === undefined) return errorResponse(gemini, { status: 404, message: `File not found: ${file}` });
    return redirectResponse(`${operation.script.video.elsewhere ? 'http://elsewhere.invalid' : origin}/v1beta/stored/${file}.mp4`);
  }

  return { start, poll, download, stored: () => binaryResponse('video/mp4', emptyMp4), clear: () => operations.clear() };
}
