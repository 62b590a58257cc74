/**
 * Google's video form: a start gives an operation, polls say that it runs and then where its files are, a file redirects once. Operations
 * are remembered (the newest 1,000), an operation that is not is answered 404 like an unknown one.
 */

import { errorResponse } from './errors.ts';
import { asCount, asObject, asObjects, asString } from './json.ts';
import { binaryResponse, type IncomingRequest, jsonResponse, type OutgoingResponse, redirectResponse } from './response.ts';
import type { Script } from './scripts.ts';

const maxOperations = 1_000;
const maxSamples = 4;

export interface Videos {
  /** POST /v1beta/models/{model}:predictLongRunning */
  start(request: IncomingRequest): OutgoingResponse;
  /** GET /v1beta/models/{model}/operations/{id} */
  poll(request: IncomingRequest): OutgoingResponse;
  /** GET /v1beta/files/{id}:download: redirects to where the bytes are. */
  download(request: IncomingRequest): OutgoingResponse;
  /** GET /v1beta/stored/{id}.mp4: the bytes. Needs no key, as the real one's signed address. */
  stored(request: IncomingRequest): OutgoingResponse;
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

  function start({ order, script, json }: IncomingRequest): OutgoingResponse {
    if (asString(asObjects(json.instances)[0]?.prompt) === '')
      return errorResponse('gemini', { status: 400, message: 'instances[0].prompt: required.' });
    const name = `models/${script.model}/operations/demo${order}`;
    const samples = Math.min(asCount(asObject(json.parameters).sampleCount) ?? 1, maxSamples);
    const [oldest] = operations.keys();
    if (oldest !== undefined && operations.size >= maxOperations) operations.delete(oldest);
    operations.set(name, { script, samples, polls: 0 });
    return jsonResponse({ name });
  }

  function poll({ pathParam: name, origin }: IncomingRequest): OutgoingResponse {
    const operation = operations.get(name);
    if (operation === undefined) return errorResponse('gemini', { status: 404, message: `Operation not found: ${name}` });
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
          raiMediaFilteredReasons: filtered ? ['The demo vendor was asked to filter this video.'] : [],
        },
      },
    });
  }

  function download({ pathParam: file, origin }: IncomingRequest): OutgoingResponse {
    const name = `/operations/${file.slice(0, file.lastIndexOf('-'))}`;
    const operation = [...operations].find(([key]) => key.endsWith(name))?.[1];
    if (operation === undefined) return errorResponse('gemini', { status: 404, message: `File not found: ${file}` });
    return redirectResponse(`${operation.script.video.elsewhere ? 'http://elsewhere.invalid' : origin}/v1beta/stored/${file}.mp4`);
  }

  return { start, poll, download, stored: () => binaryResponse('video/mp4', emptyMp4), clear: () => operations.clear() };
}

/** The two boxes that make a file an MP4: its brand, and (empty) media data. Enough to be recognised, nothing to be seen. */
const emptyMp4 = Buffer.concat([
  Buffer.from([0, 0, 0, 24]),
  Buffer.from('ftypisom', 'latin1'),
  Buffer.from([0, 0, 2, 0]),
  Buffer.from('isommp42', 'latin1'),
  Buffer.from([0, 0, 0, 8]),
  Buffer.from('mdat', 'latin1'),
]);
