/**
 * Google's video format. A start returns an operation, polls report it as running and then return its files, and a file
 * redirects once. The newest 1,000 operations are stored, and any other name returns 404.
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
  /** POST /v1beta/models/{model}:predictLongRunning */
  start(request: DemoRequest): DemoResponse;
  /** GET /v1beta/models/{model}/operations/{id} */
  poll(request: DemoRequest): DemoResponse;
  /** GET /v1beta/files/{id}:download: redirects to the URL of the bytes. */
  download(request: DemoRequest): DemoResponse;
  /** GET /v1beta/stored/{id}.mp4 returns the bytes. Like Google's signed URLs, it needs no key. */
  stored(request: DemoRequest): DemoResponse;
  clear(): void;
}

interface Operation {
  readonly script: Script;
  readonly samples: number;
  polls: number;
}

/** The operations of one vendor. */
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
