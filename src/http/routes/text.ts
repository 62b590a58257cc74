/**
 * The six inference routes, and the legacy completions route, which we convert to one of them. Turns each request into
 * a call and sends the response.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Call, type Caller, isDialect, isPromptRoute, type MemoryOptions, type TextRoute } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { largeBytes } from '../../core/low-priority-thread.ts';
import type { Clock } from '../../core/time.ts';
import type { RequestSummary, RouteCodec } from '../../dialects/contract/route-codec.ts';
import { hasOutputLimit } from '../../dialects/json/body-members.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import type { KnownPrompts } from '../../memory/conversations/known-prompts.ts';
import { receiveLargeBody } from '../../memory/conversations/large-texts.ts';
import { isSourceRecorded, type MemorySettings } from '../../memory/records/settings-schema.ts';
import type { CallResponse } from '../../pipeline/call/call-response.ts';
import { startCancellation } from '../../pipeline/call/cancellation.ts';
import type { HandleCall } from '../../pipeline/call/handle-call.ts';
import type { ProjectContext } from '../../pipeline/call/project-context.ts';
import { noRoute, quoteName } from '../../routing/no-route.ts';
import type { RecordRefusal } from '../../usage/refusals/recorder.ts';
import { type FindCaller, parseKey } from '../authenticate.ts';
import { ClientDisconnectedError, checkContentType, type KeyBodies, maxBodyBytes, readBody, toPlainTextError } from '../body.ts';
import type { BodyMemory } from '../body-memory.ts';
import { type ErrorReports, sendError, withVendorCode } from '../error-handler.ts';
import { detectAbandonedStream, keepAliveComment, onClientDisconnect } from '../half-close.ts';
import {
  hasSubjectHeader,
  parseCacheControl,
  parseCorrelation,
  parseErrorCodes,
  parseFirstContentTimeoutMs,
  parseMemoryMode,
  parseSource,
  parseSubject,
  parseTimeoutMs,
  pickForwardedHeaders,
  subjectHeader,
} from '../headers.ts';
import { callIdHeaders, sendCallResponse, setCallId } from '../send-response.ts';

export interface RoutedProject {
  readonly slug: string;
  readonly settings: ProjectContext;
}

export type FindProject = (projectId: string) => Promise<RoutedProject>;

export interface CallRouteDeps extends ErrorReports {
  readonly findCaller: FindCaller;
  readonly findProject: FindProject;
  readonly bodyMemory: BodyMemory;
  readonly recordRefusal: RecordRefusal;
  readonly clock: Clock;
}

export interface TextRouteDeps extends CallRouteDeps {
  /**
   * Returns null if we can't read the settings in time. In that case, we only decide whether memory records the call
   * when we store it.
   */
  readonly memorySettings: (projectId: string) => Promise<MemorySettings | null>;
  readonly handleCall: HandleCall;
  readonly knownPrompts: Pick<KnownPrompts, 'scan'>;
}

/** Converts another API format to the format of a route, and responses back. */
export interface FormatConversion {
  /**
   * Converts a request body, and throws the same errors as the route. Large bodies are converted by `inspectLarge`
   * instead.
   */
  readonly toRoute: (body: Buffer) => Buffer;
  readonly toCaller: (response: CallResponse) => CallResponse;
}

export function createTextRoute(route: TextRoute, deps: TextRouteDeps, conversion?: FormatConversion) {
  const { findCaller, findProject, memorySettings, handleCall, knownPrompts, bodyMemory, recordRefusal, clock } = deps;
  const codec = routeCodecs[route];
  const style = route === 'messages' ? 'messages' : 'chat';

  return async function textRoute(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const startedAt = clock.now();
    const id = newId(startedAt);
    let bodies: KeyBodies | undefined;
    let bodyBytes = 0;
    let caller: Caller | null = null;
    let call: Call | null = null;
    let errorCodes = parseErrorCodes(request.headers);
    try {
      const authenticate = async (): Promise<Caller> => {
        caller = await findCaller(parseKey(request.headers, route === 'messages'));
        return caller;
      };
      let known = await authenticate();
      checkContentType(request);
      bodies = bodyMemory.of(known.projectId, known.quotaKeyId);
      const received = await readBody(request, maxBodyBytes, bodies, async () => {
        known = await authenticate();
      });
      bodyBytes = received.length;
      const isLarge = bodyBytes >= largeBytes;
      const body = conversion && !isLarge ? conversion.toRoute(received) : received;
      const project = await findProject(known.projectId);
      errorCodes ??= project.settings.errorCodes;
      const settings = isPromptRoute(route) ? await memorySettings(known.projectId) : null;
      const scan = (bytes: Buffer): BodySpans => knownPrompts.scan(known.projectId, route, bytes);
      const source = { id, startedAt, now: clock.now(), codec, caller: known, project, settings, headers: request.headers, body, scan };
      call = parseCall(isLarge ? { ...source, ...(await inspectLarge(source, conversion !== undefined)) } : source);
      // Inspecting the body takes a while, so the client may have disconnected.
      if (response.destroyed) throw new ClientDisconnectedError();
      const isChecked = project.settings.rules.input !== null;
      const cancellation = startCancellation({ stream: call.stream, deadlineAt: call.deadlineAt, clock, isChecked });
      // The vendor bills a plain call as soon as we've sent it, so we read the response even if the client disconnects.
      // We only cancel such a call while content rules are checking it, because it hasn't been sent yet.
      if (call.stream || isChecked) {
        onClientDisconnect(response, cancellation.clientDisconnected);
        detectAbandonedStream(response, call.stream ? keepAliveComment : null);
      }
      try {
        const answer = await handleCall(call, project.settings, cancellation);
        try {
          await sendCallResponse(response, conversion ? conversion.toCaller(answer) : answer, callIdHeaders(id, style));
        } finally {
          if (answer.kind === 'stream') await answer.deliver(refuseChunk);
        }
      } finally {
        cancellation.clearDeadline();
      }
    } catch (error) {
      const { source, requestedModel } = call ?? { source: parseSource(request.headers), requestedModel: null };
      recordRefusal(error, { id, startedAt, route, caller, source, requestedModel });
      if (!response.headersSent) setCallId(response, id, style);
      const shown = errorCodes === 'vendor' ? withVendorCode(error, style) : error;
      sendError(response, isDialect(route) ? shown : toPlainTextError(shown), style, deps, id);
    } finally {
      bodies?.release(bodyBytes);
    }
  };
}

/**
 * Refuses every chunk of a stream. We always call `deliver` with this after sending the response, so that the call is
 * settled even if we couldn't send the head. If the stream has already been delivered, this has no effect.
 */
const refuseChunk = (): boolean => false;

/**
 * The maximum length of a model id in the catalog. We reject longer names early, so that they don't get into plans,
 * records and logs.
 */
export const maxModelLength = 300;

export function modelTooLong(model: string): Error {
  return noRoute(undefined, `${quoteName(model)} is longer than ${maxModelLength} characters`);
}

export interface CallSource {
  readonly id: string;
  readonly startedAt: number;
  /** The time when the last byte of the body arrived. */
  readonly now: number;
  readonly codec: RouteCodec;
  readonly caller: Caller;
  readonly project: RoutedProject;
  /**
   * The project's memory settings, or null if memory never records calls of this route. Also null if we couldn't read
   * the settings in time.
   */
  readonly settings: MemorySettings | null;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
  /** Throws `bad_json` if the body isn't a JSON object. */
  readonly scan: (body: Buffer) => BodySpans;
  /** Only set for large bodies, because a worker thread has already scanned them. */
  readonly spans?: BodySpans;
}

/**
 * Scans a large body in a worker thread. This transfers the body's memory, so continue with the returned body. Throws
 * `bad_json`.
 */
export function inspectLarge(
  { body, codec: { route }, caller, project: { settings } }: CallSource,
  isCompletion = false,
): Promise<Required<Pick<CallSource, 'body' | 'spans'>>> {
  const needs = { isCached: settings.cache.enabled, hasRules: settings.rules.input !== null };
  return receiveLargeBody(caller.projectId, body, { route, isCompletion, ...needs });
}

/** Throws the route's 400 errors if the headers or the body are invalid. */
export function parseCall(received: CallSource): Call {
  const { id, startedAt, now, codec, caller, project, headers, body } = received;
  // The scan comes first, because a large body has already been scanned, and its size shouldn't change the error.
  const spans = received.spans ?? received.scan(body);
  const { mode, explicitWrite } = parseMemoryMode(headers);
  const timeoutMs = parseTimeoutMs(headers);
  const firstContentTimeoutMs = parseFirstContentTimeoutMs(headers);
  const sourceHeader = parseSource(headers);
  const source = sourceHeader ?? project.slug;
  const hasExplicitSource = sourceHeader !== null;
  const summary = codec.parseRequest(body, spans);
  if (summary.model !== null && summary.model.length > maxModelLength) throw modelTooLong(summary.model);
  const call: Call = {
    id,
    startedAt,
    route: codec.route,
    caller,
    projectSlug: project.slug,
    source,
    hasExplicitSource,
    requestedModel: summary.model ?? 'auto',
    stream: summary.stream,
    body,
    spans,
    maxOutputTokens: summary.maxOutputTokens,
    memory: isPromptRoute(codec.route)
      ? parseMemory(received, { mode, explicitWrite, user: summary.user, source, hasExplicitSource })
      : { mode, explicitWrite, subject: null },
    cache: parseCacheControl(headers),
    correlation: parseCorrelation(headers),
    // The timeout limits the attempts and not the upload, so it starts once we have the whole body.
    deadlineAt: timeoutMs === null ? null : now + timeoutMs,
    forwardedHeaders: pickForwardedHeaders(headers),
    ...(firstContentTimeoutMs !== null && { firstContentTimeoutMs }),
  };
  return withOutputLimit(summary.hidesUsage ? { ...call, hidesUsage: true } : call);
}

function withOutputLimit(call: Call): Call {
  const { defaultMaxOutputTokens = null } = call.caller;
  if (defaultMaxOutputTokens === null || !isPromptRoute(call.route) || hasOutputLimit(call.spans)) return call;
  return { ...call, maxOutputTokens: defaultMaxOutputTokens, addsOutputLimit: true };
}

interface MemorySource extends Pick<Call, 'source' | 'hasExplicitSource'>, Pick<MemoryOptions, 'mode' | 'explicitWrite'> {
  readonly user: RequestSummary['user'];
}

/**
 * Returns the memory options of a call. Throws `invalid_memory_subject` if the subject header is invalid and memory
 * would record the call. If we don't know the settings, we accept a call with an invalid subject but never record it.
 */
function parseMemory({ headers, settings }: Pick<CallSource, 'headers' | 'settings'>, from: MemorySource): MemoryOptions {
  const { mode, explicitWrite, user } = from;
  const subject = parseSubject(headers, user);
  const isRecorded = settings === null ? undefined : isSourceRecorded(settings, from);
  const isHeaderInvalid = subject === null && hasSubjectHeader(headers);
  if (isHeaderInvalid && isRecorded && mode !== 'off') throw gatewayError('invalid_memory_subject');
  if (isHeaderInvalid) return { mode, explicitWrite, subject, isSubjectInvalid: true, isRecorded: false };
  const options: MemoryOptions = isRecorded === undefined ? { mode, explicitWrite, subject } : { mode, explicitWrite, subject, isRecorded };
  // Recall without a subject reads the memories of all end users, so an empty header or `user` must not count as none.
  const isInvalid = subject === null && (user !== null || headers[subjectHeader] !== undefined);
  return isInvalid ? { ...options, isSubjectInvalid: true } : options;
}
