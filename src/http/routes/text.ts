/**
 * The six inference routes, and other formats that we convert to one of them. Turns a request into a call and sends the
 * response.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Call, type Caller, isDialect, isPromptRoute, type MemoryOptions, type TextRoute } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { largeBytes } from '../../core/low-priority-thread.ts';
import type { Clock } from '../../core/time.ts';
import type { RouteCodec } from '../../dialects/contract/route-codec.ts';
import { hasOutputLimit } from '../../dialects/json/body-members.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import type { KnownPrompts } from '../../memory/conversations/known-prompts.ts';
import { receiveLargeBody } from '../../memory/conversations/large-texts.ts';
import { isSourceRecorded, type MemorySettings } from '../../memory/records/settings.ts';
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
} from '../headers.ts';
import { callIdHeaders, sendCallResponse, setCallId } from '../send-response.ts';

/** What the inference routes need to know about a project. */
export interface RoutedProject {
  readonly slug: string;
  readonly settings: ProjectContext;
}

export type FindProject = (projectId: string) => Promise<RoutedProject>;

/** What all routes that make calls depend on. */
export interface CallRouteDeps extends ErrorReports {
  readonly findCaller: FindCaller;
  readonly findProject: FindProject;
  readonly bodyMemory: BodyMemory;
  readonly recordRefusal: RecordRefusal;
  readonly clock: Clock;
}

export interface TextRouteDeps extends CallRouteDeps {
  /** Returns null if the settings can't be read in time. We then decide whether to record the call when we store it. */
  readonly memorySettings: (projectId: string) => Promise<MemorySettings | null>;
  readonly handleCall: HandleCall;
  readonly knownPrompts: Pick<KnownPrompts, 'scan'>;
}

/** Serves a format that isn't the route's own: requests are converted to the route's format, and responses back. */
export interface FormatConversion {
  /**
   * Converts a request body to the route's format. Throws the same errors as the route. For large bodies we call
   * `inspectLarge` instead.
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
      const known = await findCaller(parseKey(request.headers, route === 'messages'));
      caller = known;
      checkContentType(request);
      bodies = bodyMemory.of(known.quotaKeyId);
      const received = await readBody(request, maxBodyBytes, bodies);
      bodyBytes = received.length;
      const isLarge = bodyBytes >= largeBytes;
      const body = conversion && !isLarge ? conversion.toRoute(received) : received;
      const project = await findProject(known.projectId);
      errorCodes ??= project.settings.errorCodes;
      const settings = isPromptRoute(route) ? await memorySettings(known.projectId) : null;
      const scan = (bytes: Buffer): BodySpans => knownPrompts.scan(known.projectId, route, bytes);
      const source = { id, startedAt, now: clock.now(), codec, caller: known, project, settings, headers: request.headers, body, scan };
      call = parseCall(isLarge ? { ...source, ...(await inspectLarge(source, conversion !== undefined)) } : source);
      // Inspecting the body takes a while, so the client may be gone.
      if (response.destroyed) throw new ClientDisconnectedError();
      const isChecked = project.settings.rules.input !== null;
      const cancellation = startCancellation({ stream: call.stream, deadlineAt: call.deadlineAt, clock, isChecked });
      // If a call isn't streamed, the vendor bills all of it as soon as we've sent it. So if the client disconnects, we
      // still read the response to its end. We only cancel such a call if content rules are still checking it, because
      // then it hasn't been sent.
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
 * Refuses every chunk, in order to settle a call if we couldn't send the head of its stream. Has no effect once the
 * stream has been delivered.
 */
const refuseChunk = (): boolean => false;

/**
 * The maximum length of a model id in the catalog. Longer names can't be models, so we reject them before they get into
 * plans, records and logs.
 */
export const maxModelLength = 300;

export function modelTooLong(model: string): Error {
  return noRoute(undefined, `${quoteName(model)} is longer than ${maxModelLength} characters`);
}

export interface CallSource {
  readonly id: string;
  readonly startedAt: number;
  /** When the last byte of the body arrived. */
  readonly now: number;
  readonly codec: RouteCodec;
  readonly caller: Caller;
  readonly project: RoutedProject;
  /** The project's memory settings. Null if they couldn't be read in time, and on routes that memory doesn't record. */
  readonly settings: MemorySettings | null;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
  /** Throws `bad_json`. */
  readonly scan: (body: Buffer) => BodySpans;
  /** The result of scanning the body. It's only set for large bodies, which were scanned in a worker thread. */
  readonly spans?: BodySpans;
}

/** Scans a large body in a worker thread. The caller has to continue with the returned body. Throws `bad_json`. */
export function inspectLarge(
  { body, codec: { route }, caller, project: { settings } }: CallSource,
  isCompletion = false,
): Promise<Required<Pick<CallSource, 'body' | 'spans'>>> {
  const needs = { isCached: settings.cache.enabled, hasRules: settings.rules.input !== null };
  return receiveLargeBody(caller.projectId, body, { route, isCompletion, ...needs });
}

/** Builds the Call from the headers and the body. Throws the route's 400 errors. */
export function parseCall(received: CallSource): Call {
  const { id, startedAt, now, codec, caller, project, headers, body } = received;
  const { mode, explicitWrite } = parseMemoryMode(headers);
  const timeoutMs = parseTimeoutMs(headers);
  const firstContentTimeoutMs = parseFirstContentTimeoutMs(headers);
  const sourceHeader = parseSource(headers);
  const source = sourceHeader ?? project.slug;
  const hasExplicitSource = sourceHeader !== null;
  const spans = received.spans ?? received.scan(body);
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
    // Start the clock only now, when the body is here. The timeout limits the attempts, not the upload.
    deadlineAt: timeoutMs === null ? null : now + timeoutMs,
    forwardedHeaders: pickForwardedHeaders(headers),
    ...(firstContentTimeoutMs !== null && { firstContentTimeoutMs }),
  };
  return withOutputLimit(summary.hidesUsage ? { ...call, hidesUsage: true } : call);
}

/** Adds the key's default output limit to a call that has no limit. */
function withOutputLimit(call: Call): Call {
  const { defaultMaxOutputTokens = null } = call.caller;
  if (defaultMaxOutputTokens === null || !isPromptRoute(call.route) || hasOutputLimit(call.spans)) return call;
  return { ...call, maxOutputTokens: defaultMaxOutputTokens, addsOutputLimit: true };
}

interface MemorySource extends Pick<Call, 'source' | 'hasExplicitSource'>, Pick<MemoryOptions, 'mode' | 'explicitWrite'> {
  /** End user according to the body. Null if it doesn't name one. */
  readonly user: string | null;
}

/**
 * Returns the memory options of a call, i.e. its end user and whether memory records it. Throws
 * `invalid_memory_subject` if the call would be recorded but its subject header is invalid. If we don't know yet
 * whether it would be recorded, we accept the call but don't record it.
 */
function parseMemory({ headers, settings }: Pick<CallSource, 'headers' | 'settings'>, from: MemorySource): MemoryOptions {
  const { mode, explicitWrite, user } = from;
  const subject = parseSubject(headers, user);
  const isRecorded = settings === null ? undefined : isSourceRecorded(settings, from);
  const isHeaderInvalid = subject === null && hasSubjectHeader(headers);
  if (isHeaderInvalid && isRecorded && mode !== 'off') throw gatewayError('invalid_memory_subject');
  if (isHeaderInvalid) return { mode, explicitWrite, subject, isSubjectInvalid: true, isRecorded: false };
  const options: MemoryOptions = isRecorded === undefined ? { mode, explicitWrite, subject } : { mode, explicitWrite, subject, isRecorded };
  const isUserInvalid = subject === null && user !== null && user !== '';
  return isUserInvalid ? { ...options, isSubjectInvalid: true } : options;
}
