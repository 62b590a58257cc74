/**
 * The six inference routes, and other formats that we convert to one of them. Turns a request into a Call and sends its
 * response.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Call, type Caller, isDialect, isPromptRoute, type MemoryOptions, type TextRoute } from '../../core/call.ts';
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { largeBytes } from '../../core/low-priority-thread.ts';
import type { Clock } from '../../core/time.ts';
import { withTimeout } from '../../core/time-limit.ts';
import type { RouteCodec } from '../../dialects/contract/route-codec.ts';
import { hasOutputLimit } from '../../dialects/json/output-limit.ts';
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
import { type ErrorReports, sendError } from '../error-handler.ts';
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

/** The part of a project that the inference routes need. */
export interface RoutedProject {
  readonly slug: string;
  readonly settings: ProjectContext;
}

/** Synchronous if the project is cached. */
export type FindProject = (projectId: string) => RoutedProject | Promise<RoutedProject>;

/** Dependencies of every route that makes calls. */
export interface CallRouteDeps extends ErrorReports {
  readonly findCaller: FindCaller;
  readonly findProject: FindProject;
  readonly bodyMemory: BodyMemory;
  readonly recordRefusal: RecordRefusal;
  readonly clock: Clock;
}

export interface TextRouteDeps extends CallRouteDeps {
  readonly memorySettings: (projectId: string) => MemorySettings | Promise<MemorySettings>;
  readonly handleCall: HandleCall;
  readonly knownPrompts: Pick<KnownPrompts, 'scan'>;
}

/**
 * Serves another format over a route by converting the request body to the format of the route, and the response back.
 */
export interface FormatConversion {
  /** Throws the errors of the route. Not used for large bodies, because `inspectLarge` converts them. */
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
      const callerLookup = findCaller(parseKey(request.headers, route === 'messages'));
      const known = callerLookup instanceof Promise ? await callerLookup : callerLookup;
      caller = known;
      checkContentType(request);
      bodies = bodyMemory.of(known.quotaKeyId);
      const received = await readBody(request, maxBodyBytes, bodies);
      bodyBytes = received.length;
      const isLarge = bodyBytes >= largeBytes;
      const body = conversion && !isLarge ? conversion.toRoute(received) : received;
      const projectLookup = findProject(known.projectId);
      const project = projectLookup instanceof Promise ? await projectLookup : projectLookup;
      errorCodes ??= project.settings.errorCodes;
      const settingsLookup = isPromptRoute(route) ? memorySettings(known.projectId) : null;
      const settings = settingsLookup instanceof Promise ? await settingsUnlessLate(settingsLookup) : settingsLookup;
      const scan = (bytes: Buffer): BodySpans => knownPrompts.scan(known.projectId, route, bytes);
      const source = { id, startedAt, now: clock.now(), codec, caller: known, project, settings, headers: request.headers, body, scan };
      call = parseCall(isLarge ? { ...source, ...(await inspectLarge(source, conversion !== undefined)) } : source);
      // The client may have disconnected during the inspection.
      if (response.destroyed) throw new ClientDisconnectedError();
      const isChecked = project.settings.rules.input !== null;
      const cancellation = startCancellation({ stream: call.stream, deadlineAt: call.deadlineAt, clock, isChecked });
      // The vendor bills a plain call once it is sent, so from then on we read it to its end even if the client
      // disconnects. A disconnect only cancels a plain call while content rules are still checking it.
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
      const shown = errorCodes === 'vendor' && style === 'chat' ? withVendorCode(error) : error;
      sendError(response, isDialect(route) ? shown : toPlainTextError(shown), style, deps, id);
    } finally {
      bodies?.release(bodyBytes);
    }
  };
}

/** Abandons a stream if we couldn't send the head, so that its call is settled. It has no effect after a delivery. */
const refuseChunk = (): boolean => false;

/** Returns the error with the vendor's code as its `code`, if the vendor named one. */
function withVendorCode(error: unknown): unknown {
  if (!(error instanceof GatewayError) || error.members.upstream_code === undefined) return error;
  const { code, message, status, cause, retryAfterSeconds, members } = error;
  return gatewayError(code, { message, status, cause, retryAfterSeconds, members: { ...members, code: error.members.upstream_code } });
}

/**
 * We only wait for the database on the first call of a project. If the database fails or hangs, the call goes on
 * without the settings.
 */
const settingsTimeoutMs = 1_000;

/**
 * Resolves to null if the settings can't be read in time. We then decide whether to record the call when we store it.
 */
function settingsUnlessLate(lookup: Promise<MemorySettings>): Promise<MemorySettings | null> {
  return withTimeout(lookup, settingsTimeoutMs, () => null).catch(() => null);
}

/** The catalog's limit for model ids. We reject longer names early, which keeps them out of plans, records and logs. */
export const maxModelLength = 300;

export function modelTooLong(model: string): Error {
  return noRoute(undefined, `${quoteName(model)} is longer than ${maxModelLength} characters`);
}

export interface CallSource {
  readonly id: string;
  readonly startedAt: number;
  /** The time when the body was complete. */
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
  /** Set for a large body, which was scanned elsewhere. */
  readonly spans?: BodySpans;
}

/** Checks a large body outside of the event loop. The result replaces the body. Throws `bad_json`. */
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
    // The timeout applies to the attempts, so it doesn't include the time it took to receive the body.
    deadlineAt: timeoutMs === null ? null : now + timeoutMs,
    forwardedHeaders: pickForwardedHeaders(headers),
    ...(firstContentTimeoutMs !== null && { firstContentTimeoutMs }),
  };
  return withOutputLimit(summary.hidesUsage ? { ...call, hidesUsage: true } : call);
}

/** Applies the key's default output limit, if there is one, to a call that doesn't set a limit itself. */
function withOutputLimit(call: Call): Call {
  const { defaultMaxOutputTokens = null } = call.caller;
  if (defaultMaxOutputTokens === null || !isPromptRoute(call.route) || hasOutputLimit(call.spans)) return call;
  return { ...call, maxOutputTokens: defaultMaxOutputTokens, addsOutputLimit: true };
}

interface MemorySource extends Pick<Call, 'source' | 'hasExplicitSource'>, Pick<MemoryOptions, 'mode' | 'explicitWrite'> {
  /** The end user named in the body. */
  readonly user: string | null;
}

/**
 * Returns the memory options of a call: its end user, and whether memory records it. Throws `invalid_memory_subject` if
 * the call would be recorded but the header is invalid. If we don't know yet whether it would be recorded, we accept
 * the call without recording it, because it has no valid subject.
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
