/** The six inference routes (specification 4.5): from a request to a Call, and from its answer back. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Call, Caller, TextRoute } from '../../core/call.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { RouteCodec } from '../../dialects/contract/route-codec.ts';
import { bodyKeys } from '../../dialects/json/body-members.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import { isSourceRecorded, type MemorySettings } from '../../memory/records/settings.ts';
import type { Logger } from '../../observability/logger.ts';
import { startCancellation } from '../../pipeline/call/cancellation.ts';
import type { HandleCall } from '../../pipeline/call/handle-call.ts';
import type { ProjectContext } from '../../pipeline/call/project-context.ts';
import type { FindCaller } from '../authenticate.ts';
import { parseKey } from '../authenticate.ts';
import { checkContentType, readBody, scanJson, toPlainTextError } from '../body.ts';
import { sendError } from '../error-handler.ts';
import { detectAbandonedStream, keepAliveComment } from '../half-close.ts';
import {
  parseCacheControl,
  parseCorrelation,
  parseMemoryMode,
  parseSubject,
  parseTextHeader,
  parseTimeoutMs,
  pickForwardedHeaders,
} from '../headers.ts';
import { sendCallResponse } from '../send-response.ts';

/** A project as the text routes need it. */
export interface RoutedProject {
  readonly slug: string;
  readonly settings: ProjectContext;
}

export interface TextRouteDeps {
  readonly findCaller: FindCaller;
  /** Synchronous while the project is in memory. */
  readonly findProject: (projectId: string) => RoutedProject | Promise<RoutedProject>;
  readonly memorySettings: (projectId: string) => MemorySettings | Promise<MemorySettings>;
  readonly handleCall: HandleCall;
  readonly clock: Clock;
  readonly logger: Logger;
}

export function createTextRoute(route: TextRoute, deps: TextRouteDeps) {
  const { findCaller, findProject, memorySettings, handleCall, clock, logger } = deps;
  const codec = routeCodecs[route];

  return async function textRoute(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const startedAt = clock.now();
    const id = newId(startedAt);
    response.setHeader('x-gateway-call-id', id);
    try {
      const found = findCaller(parseKey(request.headers, route === 'messages'));
      const caller = found instanceof Promise ? await found : found;
      checkContentType(request);
      const body = await readBody(request);
      const known = findProject(caller.projectId);
      const project = known instanceof Promise ? await known : known;
      const source = { id, startedAt, now: clock.now(), codec, caller, project, headers: request.headers, body };
      const read = parseCheckedCall(source);
      const call = read instanceof Promise ? await read : read;
      const cancellation = startCancellation({ stream: call.stream, deadlineAt: call.deadlineAt, clock });
      response.once('close', () => {
        // An answer that was sent whole closes too; a hang-up then would end the vendor's connection, which can be used again.
        if (!response.writableFinished) cancellation.clientDisconnected();
      });
      if (call.stream) detectAbandonedStream(response, keepAliveComment);
      try {
        await sendCallResponse(response, await handleCall(call, project.settings, cancellation));
      } finally {
        cancellation.clearDeadline();
      }
    } catch (error) {
      sendError(
        response,
        route === 'chat' || route === 'messages' ? error : toPlainTextError(error),
        route === 'messages' ? 'messages' : 'chat',
        logger,
      );
    }
  };

  /** A subject header that is none is a fault only where the call is recorded (specification 4.2), or recall would go by it. */
  function parseCheckedCall(source: CallSource): Call | Promise<Call> {
    try {
      return parseCall(source, true);
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'invalid_memory_subject') return parseWithoutSubject(source, error);
      throw error;
    }
  }

  async function parseWithoutSubject(source: CallSource, error: GatewayError): Promise<Call> {
    const settings = await memorySettings(source.caller.projectId);
    const call = parseCall(source, false);
    const goesByIt = isSourceRecorded(settings, call) || (settings.enabled && call.memory.mode === 'recall');
    if (goesByIt) throw error;
    return call;
  }
}

/** As the catalog bounds the ids of models. */
const maxModelLength = 300;

interface CallSource {
  readonly id: string;
  readonly startedAt: number;
  /** When the body was there. */
  readonly now: number;
  readonly codec: RouteCodec;
  readonly caller: Caller;
  readonly project: RoutedProject;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/** Headers and bytes to a Call. Throws the specification's 400s. */
function parseCall({ id, startedAt, now, codec, caller, project, headers, body }: CallSource, checksSubject: boolean): Call {
  const memoryMode = parseMemoryMode(headers);
  const timeoutMs = parseTimeoutMs(headers);
  const source = parseTextHeader(headers, 'x-gateway-source');
  const spans = scanJson(body, bodyKeys);
  const facts = codec.parseRequest(body, spans);
  // No model has such a name; a longer one would only be carried through plan, records and logs.
  if (facts.model !== null && facts.model.length > maxModelLength) throw gatewayError('no_route');
  return {
    id,
    startedAt,
    route: codec.route,
    caller,
    projectSlug: project.slug,
    source: source ?? project.slug,
    sourceGiven: source !== null,
    modelAsked: facts.model ?? 'auto',
    stream: facts.stream,
    body,
    spans,
    maxOutputTokens: facts.maxOutputTokens,
    memory: {
      ...memoryMode,
      subject: isRecorded(codec.route) ? parseSubject(headers, facts.user, checksSubject && memoryMode.mode !== 'off') : null,
    },
    cache: parseCacheControl(headers),
    correlation: parseCorrelation(headers),
    // The limit is one of the failover attempts (specification 4.2): the time that the body took to come is not theirs.
    deadlineAt: timeoutMs === null ? null : now + timeoutMs,
    forwardedHeaders: pickForwardedHeaders(headers),
  };
}

/** Memory records chat, messages and responses alone (specification 4.8 rule 3): elsewhere a subject has no meaning. */
function isRecorded(route: TextRoute): boolean {
  return route === 'chat' || route === 'messages' || route === 'responses';
}
