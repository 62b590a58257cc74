/** Shared code of the media routes, which validates requests, converts them to calls and formats errors. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Caller, MediaCall, MediaRoute } from '../../core/call.ts';
import { newId } from '../../core/ids.ts';
import { parseKey } from '../authenticate.ts';
import { checkContentType, maxBodyBytes, readBody, toPlainTextError } from '../body.ts';
import { sendError } from '../error-handler.ts';
import { parseCorrelation, parseSource } from '../headers.ts';
import { setCallId } from '../send-response.ts';
import { parseBoundary } from '../upload.ts';
import type { CallRouteDeps, RoutedProject } from './text.ts';

interface Authenticated {
  readonly id: string;
  readonly startedAt: number;
  readonly caller: Caller;
  /** Authenticates the request again, because its body may take minutes to arrive. */
  readonly findCaller: () => Promise<Caller>;
  readonly headers: IncomingHttpHeaders;
}

export interface MediaCallSource extends Authenticated {
  readonly project: RoutedProject;
}

export interface MediaRequestContext extends MediaCallSource {
  readonly body: Buffer;
  /** The size of the body. `body` may be empty after parsing, because a large one is moved to another thread. */
  readonly bodyBytes: number;
}

export type MediaHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** `handle` sends the response. If it throws, we send an error response. */
export function createMediaHandler(
  deps: CallRouteDeps,
  route: MediaRoute,
  handle: (received: MediaRequestContext, response: ServerResponse) => Promise<void>,
): MediaHandler {
  return createHandler({ ...deps, route }, checkContentType, async (source, request, response) => {
    const bodies = deps.bodyMemory.of(source.caller.projectId, source.caller.quotaKeyId);
    let { caller } = source;
    const body = await readBody(request, maxBodyBytes, bodies, async () => {
      caller = await source.findCaller();
    });
    const bodyBytes = body.length;
    try {
      // Load the project as late as possible, because the body may take minutes to arrive and the project may have
      // changed in the meantime.
      const project = await deps.findProject(source.caller.projectId);
      await handle({ ...source, caller, project, body, bodyBytes }, response);
    } finally {
      bodies.release(bodyBytes);
    }
  });
}

/** Like `createMediaHandler`, but `handle` reads the body itself, because it's multipart. */
export function createUploadHandler(
  deps: CallRouteDeps,
  route: MediaRoute,
  handle: (source: MediaCallSource & { readonly boundary: string }, request: IncomingMessage, response: ServerResponse) => Promise<void>,
): MediaHandler {
  return createHandler({ ...deps, route }, parseBoundary, async (source, request, response, boundary) => {
    const project = await deps.findProject(source.caller.projectId);
    await handle({ ...source, project, boundary }, request, response);
  });
}

function createHandler<ContentType>(
  deps: CallRouteDeps & { readonly route: MediaRoute },
  checkType: (request: IncomingMessage) => ContentType,
  handle: (source: Authenticated, request: IncomingMessage, response: ServerResponse, type: ContentType) => Promise<void>,
): MediaHandler {
  const { findCaller, recordRefusal, route, clock } = deps;
  return async (request, response) => {
    const startedAt = clock.now();
    const id = newId(startedAt);
    setCallId(response, id, 'chat');
    const { headers } = request;
    let caller: Caller | null = null;
    try {
      const find = (): Promise<Caller> => findCaller(parseKey(headers, false));
      caller = await find();
      const type = checkType(request);
      await handle({ id, startedAt, caller, findCaller: find, headers }, request, response, type);
    } catch (error) {
      recordRefusal(error, { id, startedAt, route, caller, source: parseSource(headers), requestedModel: null });
      sendError(response, toPlainTextError(error), 'chat', deps, id);
    }
  };
}

export function toMediaCall(
  { id, startedAt, caller, project, headers }: Omit<MediaCallSource, 'findCaller'>,
  { route, requestedModel, bodyBytes }: Pick<MediaCall, 'route' | 'requestedModel' | 'bodyBytes'>,
): MediaCall {
  const source = parseSource(headers);
  return {
    id,
    startedAt,
    route,
    caller,
    projectSlug: project.slug,
    source: source ?? project.slug,
    hasExplicitSource: source !== null,
    requestedModel,
    bodyBytes,
    correlation: parseCorrelation(headers),
  };
}
