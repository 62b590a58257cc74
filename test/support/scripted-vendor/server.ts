/**
 * The scripted vendor is the demo vendor as a test double. The name of the model determines the response (see
 * scripts.ts). It also records requests. Its memory use is bounded.
 */
import type { ServerResponse } from 'node:http';
import { errorResponse, type Family, unknownPathResponse } from '../../../src/demo-vendor/errors.ts';
import type { DemoRequest, DemoResponse } from '../../../src/demo-vendor/response.ts';
import {
  type DemoVendor,
  type DemoVendorOptions,
  type ReceivedRequest,
  requestIdHeaders,
  startVendorServer,
} from '../../../src/demo-vendor/server.ts';
import { waitFor, waitMs } from '../../../src/demo-vendor/wait.ts';
import { failureResponse } from './failures.ts';
import { createRecorder, type RecordedRequest } from './recorder.ts';
import { type ScriptedResponse, scriptOf } from './response.ts';
import { createScriptedRoutes } from './routes.ts';
import type { Script } from './scripts.ts';
import { createVideos } from './videos.ts';
import { writeScripted } from './write-scripted.ts';

export interface ScriptedVendor extends DemoVendor {
  /** Returns the newest 1,000 requests, oldest first. */
  requests(): readonly RecordedRequest[];
  /** Responds to all requests that are waiting because of `held` in the model's name. Returns how many there were. */
  release(): number;
  /** Clears the recorded requests, the used `once` faults and the videos. */
  clear(): void;
}

export interface ScriptedVendorOptions extends DemoVendorOptions {
  /** Called for each request when its body is complete, before the response. */
  readonly observe?: (request: RecordedRequest) => void;
  /** Returns milliseconds since 1970, for retry hints that are dates. */
  readonly now?: () => number;
}

const maxOnceModels = 1_000;

/** Starts the server. Rejects if the port is in use. */
export async function createScriptedVendor({
  paceMs = 0,
  observe,
  now = Date.now,
  ...address
}: ScriptedVendorOptions = {}): Promise<ScriptedVendor> {
  const recorder = createRecorder();
  const videos = createVideos();
  const modelsFailedOnce = new Set<string>();
  const held = new Set<() => void>();

  async function respond({ request, route, family, refusal }: ReceivedRequest, response: ServerResponse): Promise<void> {
    const recorded = recorder.record(request);
    observe?.(recorded);
    const script = scriptOf(request);
    const refused = refusal ?? invalidTermResponse(script, family);
    if (refused === null && script.slowMs > 0) await waitMs(response, script.slowMs);
    if (response.destroyed) return;
    const failure = refused ?? scriptedFailure(request, script, family);
    if (failure === null && script.held) await untilReleased(response);
    if (response.destroyed) return;
    const outgoing = failure ?? route?.handle(request) ?? unknownPathResponse(family, request);
    await writeScripted(response, { outgoing, script, paceMs, family, headers: requestIdHeaders(family, request) });
  }

  /** Resolves when `release()` is called or the client disconnects. */
  function untilReleased(response: ServerResponse): Promise<void> {
    return waitFor(response, (done) => {
      held.add(done);
      return () => held.delete(done);
    });
  }

  function scriptedFailure(request: DemoRequest, { fault, once, model, cut }: Script, family: Family): ScriptedResponse | null {
    if (fault === null) {
      const isPlain = request.json.stream !== true;
      return cut?.kind === 'error' && isPlain
        ? errorResponse(family, { status: 500, message: 'The server had an error while answering.' })
        : null;
    }
    if (once && modelsFailedOnce.has(model)) return null;
    if (once) {
      if (modelsFailedOnce.size >= maxOnceModels) modelsFailedOnce.clear();
      modelsFailedOnce.add(model);
    }
    return failureResponse(fault, family, request, now());
  }

  const vendor = await startVendorServer({ ...address, findRoute: createScriptedRoutes(videos), respond });
  return {
    ...vendor,
    requests: recorder.requests,
    release() {
      const released = [...held];
      for (const release of released) release();
      return released.length;
    },
    clear() {
      recorder.clear();
      videos.clear();
      modelsFailedOnce.clear();
    },
  };
}

function invalidTermResponse({ invalidTerm }: Script, family: Family): DemoResponse | null {
  return invalidTerm === null
    ? null
    : errorResponse(family, { status: 400, message: `The scripted vendor cannot read '${invalidTerm}' in the model's name.` });
}
