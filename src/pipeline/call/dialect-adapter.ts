/**
 * Adapts a call to the dialect of a candidate. If the vendor uses the caller's dialect, we patch a few members of the
 * body and pass the response through. Otherwise we translate the request and the response.
 */
import { type Call, isDialect } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { VendorError } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { setMember, splice, spliceParts } from '../../core/json/spans.ts';
import { largeBytes } from '../../core/low-priority-thread.ts';
import type { RouteCodec } from '../../dialects/contract/route-codec.ts';
import { rejectUntranslatable, UntranslatableError } from '../../dialects/contract/untranslatable.ts';
import { asLosslessObject } from '../../dialects/json/lossless-json.ts';
import { parseLossless } from '../../dialects/json/parse-lossless.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import { requestToMessages, responseToMessages } from '../../dialects/translate/chat-to-messages.ts';
import { createStreamToMessages } from '../../dialects/translate/chat-to-messages-stream.ts';
import { toCallerTurn } from '../../dialects/translate/json-answer-tool.ts';
import { requestToChat, responseToChat } from '../../dialects/translate/messages-to-chat.ts';
import { createStreamToChat } from '../../dialects/translate/messages-to-chat-stream.ts';
import { createChanges, type RequestChanges } from '../../dialects/translate/request-changes.ts';
import type { StreamTranslator } from '../../dialects/translate/stream.ts';
import type { VendorResponse } from '../../vendors/text.ts';
import type { Provider } from '../../vendors/vendor.ts';
import { responsesAdapterFor } from './responses-adapter.ts';
import type { ResponsesForm } from './responses-routes.ts';
import { translateJson, translateStream, withBody, withTurn } from './translate-response.ts';

/** The request to one candidate, and the conversion of its response. */
export interface DialectAdapter {
  /** The codec of the vendor's dialect. */
  readonly codec: RouteCodec;
  /** In parts if it's large. */
  readonly body: Buffer | readonly Buffer[];
  /**
   * What happened to members of the request that the vendor doesn't get as they were sent. Null if the body wasn't
   * translated.
   */
  readonly changes: RequestChanges | null;
  /** Converts the vendor's response to the caller's dialect. Throws VendorError `unreadable`. */
  toCallerResponse(response: VendorResponse): VendorResponse;
}

/** Sent if neither the caller nor the catalog sets a limit, because messages vendors require one. */
const defaultMaxTokens = 4_096;

/**
 * Creates the adapter. If the vendor's dialect can't express the request, it throws the same VendorError as for a
 * vendor's 400.
 */
export function adapterFor(
  call: Call,
  candidate: Candidate,
  provider: Provider,
  responsesForm: ResponsesForm = 'native',
  mayOmitTools = true,
): DialectAdapter {
  const { route } = call;
  const addedLimit = addedLimitFor(call, candidate);
  const maxTokens = addedLimit ?? candidate.maxOutputTokens ?? defaultMaxTokens;
  if (route === 'responses' && responsesForm === 'translated') {
    return refuseUntranslatable(() =>
      responsesAdapterFor(call, {
        candidate,
        maxTokensField: maxTokensField(provider),
        takesReasoning: candidate.traits?.takesReasoning ?? takesReasoning(provider),
        maxTokens,
        addedLimit,
        mayOmitTools,
      }),
    );
  }
  if (!isDialect(route) || candidate.dialect === route) {
    const codec = routeCodecs[route];
    const { body, spans } = call;
    const splices = codec.patchForVendor(body, spans, candidate.model, call.stream);
    if (addedLimit !== null) {
      const key = route === 'responses' ? 'max_output_tokens' : maxTokensField(provider);
      splices.push(setMember(spans, key, String(addedLimit)));
    }
    return {
      codec,
      body: body.length < largeBytes ? splice(body, splices) : spliceParts(body, splices),
      changes: null,
      toCallerResponse: (response) => response,
    };
  }
  const identity = { id: call.id, model: candidate.model, createdSeconds: Math.floor(call.startedAt / 1000) };
  const body = refuseUntranslatable(() => parseBody(call));
  const changes = createChanges();
  const thinking = asLosslessObject(body.thinking).type;
  const options = { hidesThinking: thinking !== 'enabled' && thinking !== 'adaptive' };
  const toCaller = (response: JsonObject): JsonObject | null =>
    route === 'chat' ? responseToChat(response, identity) : responseToMessages(response, identity, options);
  const createTranslator = (): StreamTranslator =>
    route === 'chat' ? createStreamToChat(identity) : createStreamToMessages(identity, options);
  return {
    codec: routeCodecs[candidate.dialect],
    body: refuseUntranslatable(() => translateRequest(body, call, { candidate, provider, maxTokens, changes })),
    changes,
    toCallerResponse(response) {
      if (response.kind === 'stream')
        return { ...translateStream(response, createTranslator()), summary: () => withTurn(response.summary(), toCallerTurn) };
      return { ...withBody(response, translateJson(response, toCaller)), summary: withTurn(response.summary, toCallerTurn) };
    },
  };
}

/** The body is valid JSON, so if we can't parse it, it must be too large. */
function parseBody({ body }: Call): JsonObject {
  return asLosslessObject(
    parseLossless(body.toString('utf8')) ??
      rejectUntranslatable('the body is nested too deeply, or has too many values, to be translated to the other dialect'),
  );
}

/**
 * Returns the default limit of the caller's key, or the model's own limit if that is lower, because vendors refuse
 * larger values. Returns null if we don't add a limit.
 */
function addedLimitFor({ addsOutputLimit, maxOutputTokens }: Call, candidate: Candidate): number | null {
  if (!addsOutputLimit || maxOutputTokens === null) return null;
  return Math.min(maxOutputTokens, candidate.maxOutputTokens ?? maxOutputTokens);
}

interface TranslationTarget {
  readonly candidate: Candidate;
  readonly provider: Provider;
  /** Used for a messages vendor if the caller set no limit. Calls on the messages route always set one. */
  readonly maxTokens: number;
  readonly changes: RequestChanges;
}

function translateRequest(body: JsonObject, { stream }: Call, { candidate, provider, maxTokens, changes }: TranslationTarget): Buffer {
  const { model, traits, dialect } = candidate;
  const translated =
    dialect === 'messages'
      ? requestToMessages(body, { ...traits, model, stream, maxTokens }, changes)
      : requestToChat(
          body,
          { takesReasoning: takesReasoning(provider), ...traits, model, stream, maxTokensField: maxTokensField(provider) },
          changes,
        );
  return Buffer.from(JSON.stringify(translated));
}

/** Rethrows an UntranslatableError as a VendorError that looks like a vendor's 400. */
function refuseUntranslatable<Result>(translate: () => Result): Result {
  try {
    return translate();
  } catch (error) {
    if (!(error instanceof UntranslatableError)) throw error;
    const { message, details } = error;
    // If a message is about one member, it begins with the member's name.
    const param = error.param ?? /^[\w.[\]]+(?=: )/.exec(message)?.[0] ?? null;
    const report = { code: null, type: null, param, windowTokens: null, ...(details && { details }) };
    throw new VendorError('status', message, { status: 400, vendorMessage: message, report, cause: error });
  }
}

/**
 * Returns the name of the token limit. OpenAI's reasoning models reject `max_tokens`, and many compatible vendors
 * accept nothing else.
 */
function maxTokensField({ baseUrl }: Provider): 'max_completion_tokens' | 'max_tokens' {
  const { hostname } = new URL(baseUrl);
  return hostname === 'api.openai.com' || hostname.endsWith('.openai.azure.com') ? 'max_completion_tokens' : 'max_tokens';
}

/** Returns the form of reasoning that all models of the vendor accept. */
function takesReasoning({ baseUrl }: Provider): 'none' | 'details' {
  return new URL(baseUrl).hostname === 'openrouter.ai' ? 'details' : 'none';
}
