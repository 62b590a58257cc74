/** Shared part of the image, speech and video routes: the order of checks, the error format, the call. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Caller, MediaCall, MediaRoute } from '../../core/call.ts';
import { newId } from '../../core/ids.ts';
import { parseKey } from '../authenticate.ts';
import { checkContentType, readBody, toPlainTextError } from '../body.ts';
import { sendError } from '../error-handler.ts';
import { parseCorrelation, parseTextHeader } from '../headers.ts';
import type { CallRouteDeps, RoutedProject } from './text.ts';

/** An authenticated request with its body. */
export interface MediaRequestContext {
  readonly id: string;
  readonly startedAt: number;
  readonly caller: Caller;
  readonly project: RoutedProject;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export type MediaHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Creates the handler of a route; `handle` sends the response, and its errors are sent to the caller. */
export function createMediaHandler(
  { findCaller, findProject, clock, logger }: CallRouteDeps,
  handle: (received: MediaRequestContext, response: ServerResponse) => Promise<void>,
): MediaHandler {
  return async (request, response) => {
    const startedAt = clock.now();
    const id = newId(startedAt);
    response.setHeader('x-gateway-call-id', id);
    try {
      const { headers } = request;
      const caller = await findCaller(parseKey(headers, false));
      checkContentType(request);
      const body = await readBody(request);
      const project = await findProject(caller.projectId);
      await handle({ id, startedAt, caller, project, headers, body }, response);
    } catch (error) {
      sendError(response, toPlainTextError(error), 'chat', logger);
    }
  };
}

/** The call of a request. */
export function toMediaCall(
  { id, startedAt, caller, project, headers, body }: MediaRequestContext,
  route: MediaRoute,
  modelAsked: string,
): MediaCall {
  const source = parseTextHeader(headers, 'x-gateway-source');
  return {
    id,
    startedAt,
    route,
    caller,
    projectSlug: project.slug,
    source: source ?? project.slug,
    sourceGiven: source !== null,
    modelAsked,
    bodyBytes: body.length,
    correlation: parseCorrelation(headers),
  };
}
