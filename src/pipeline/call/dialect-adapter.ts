/**
 * Adapts a call to the dialect of a candidate. If the vendor uses the caller's dialect, we patch a few fields of the
 * body and pass the response through. If not, we translate both the request and the response.
 */
import { type Call, isDialect } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { VendorError } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { setMember, splice, spliceParts } from '../../core/json/spans.ts';
import { modelNameAt, type RequestFormat } from '../../core/request-format.ts';
import { isSlowToParse } from '../../core/slow-json.ts';
import type { RouteCodec } from '../../dialects/contract/route-codec.ts';
import { UntranslatableError } from '../../dialects/contract/untranslatable.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import { responseToMessages } from '../../dialects/translate/chat-to-messages.ts';
import { createStreamToMessages } from '../../dialects/translate/chat-to-messages-stream.ts';
import { toCallerTurn } from '../../dialects/translate/json-answer-tool.ts';
import { responseToChat } from '../../dialects/translate/messages-to-chat.ts';
import { createStreamToChat } from '../../dialects/translate/messages-to-chat-stream.ts';
import type { RequestChanges } from '../../dialects/translate/request-changes.ts';
import type { StreamTranslator } from '../../dialects/translate/stream.ts';
import type { VendorResponse } from '../../vendors/text.ts';
import type { Provider } from '../../vendors/vendor.ts';
import { responsesAdapterFor } from './responses-adapter.ts';
import type { ResponsesForm } from './responses-routes.ts';
import { translateInThread } from './translate-in-thread.ts';
import { type TranslatedRequest, type TranslationTarget, translateRequest } from './translate-request.ts';
import { translateJson, translateStream, withBody, withTurn } from './translate-response.ts';

/** Builds the request for a candidate and converts the response. */
export interface DialectAdapter {
  /** Reads the vendor's dialect. */
  readonly codec: RouteCodec;
  /** The model's name at the provider. */
  readonly model: string;
  /** Long bodies are passed as lists of buffers, so that we don't have to copy them. */
  readonly body: Buffer | readonly Buffer[];
  /** The request fields that we drop or adjust for the vendor. Null if the body wasn't translated. */
  readonly changes: RequestChanges | null;
  /** Converts the vendor's response to the caller's dialect. Throws VendorError `unreadable`. */
  toCallerResponse(response: VendorResponse): VendorResponse;
}

/**
 * We don't copy longer bodies. The extra memory would make V8 run more full garbage collections, which cost more than
 * writing a body in two parts.
 */
const maxCopiedBytes = 65_536;

/** The dialect requires a limit. We use this one if there's none in the request or the catalog. */
const defaultMaxTokens = 4_096;

/**
 * Throws if the vendor's dialect can't express the request. The error is the same VendorError as for a vendor that
 * responds with 400.
 */
export function adapterFor(
  call: Call,
  planned: Candidate,
  { requests }: Pick<Provider, 'requests'>,
  responsesForm: ResponsesForm = 'native',
  mayOmitTools = true,
  /** The body as translated by `translateInThread`, or the error if that isn't possible. */
  translated?: TranslatedRequest | UntranslatableError,
): DialectAdapter {
  const { route } = call;
  const model = modelNameAt(requests, planned.model);
  // Usually the provider uses the same name for the model as the catalog, so we can skip the copy (1 µs).
  const candidate = model === planned.model ? planned : { ...planned, model };
  const addedLimit = addedLimitFor(call, candidate);
  const maxTokens = addedLimit ?? candidate.maxOutputTokens ?? defaultMaxTokens;
  if (route === 'responses' && responsesForm === 'translated') {
    const { maxTokensField, takesReasoning } = requests;
    return {
      model,
      ...refuseUntranslatable(() =>
        responsesAdapterFor(call, {
          ...{ candidate, maxTokensField, maxTokens, addedLimit, mayOmitTools },
          takesReasoning: candidate.traits?.takesReasoning ?? takesReasoning,
        }),
      ),
    };
  }
  if (!isDialect(route) || candidate.dialect === route) {
    const codec = routeCodecs[route];
    const { body, spans } = call;
    const splices = codec.patchForVendor(body, spans, model, call.stream);
    if (addedLimit !== null) {
      const key = route === 'responses' ? 'max_output_tokens' : requests.maxTokensField;
      splices.push(setMember(spans, key, String(addedLimit)));
    }
    return {
      codec,
      model,
      body: body.length <= maxCopiedBytes ? splice(body, splices) : spliceParts(body, splices),
      changes: null,
      toCallerResponse: sameResponse,
    };
  }
  const identity = { id: call.id, model: planned.model, createdSeconds: Math.floor(call.startedAt / 1000) };
  const { body, changes, hidesThinking } = refuseUntranslatable(() => {
    if (translated instanceof UntranslatableError) throw translated;
    return translated ?? translateRequest(call.body, toTranslationTarget(call, candidate, requests, maxTokens));
  });
  const options = { hidesThinking };
  const toCaller = (response: JsonObject): JsonObject | null =>
    route === 'chat' ? responseToChat(response, identity) : responseToMessages(response, identity, options);
  const createTranslator = (): StreamTranslator =>
    route === 'chat' ? createStreamToChat(identity) : createStreamToMessages(identity, options);
  return {
    codec: routeCodecs[candidate.dialect],
    model,
    body,
    changes,
    toCallerResponse(response) {
      if (response.kind === 'stream')
        return { ...translateStream(response, createTranslator()), summary: () => withTurn(response.summary(), toCallerTurn) };
      return { ...withBody(response, translateJson(response, toCaller)), summary: withTurn(response.summary, toCallerTurn) };
    },
  };
}

/**
 * Translates the body for `adapterFor` in the low-priority thread if that takes too long for the event loop.
 * Otherwise returns undefined.
 */
export function translateIfLarge(
  call: Call,
  planned: Candidate,
  { requests }: Pick<Provider, 'requests'>,
): Promise<TranslatedRequest | UntranslatableError> | undefined {
  if (!isDialect(call.route) || planned.dialect === call.route || !isSlowToParse(call.body)) return undefined;
  const candidate = { ...planned, model: modelNameAt(requests, planned.model) };
  const maxTokens = addedLimitFor(call, candidate) ?? candidate.maxOutputTokens ?? defaultMaxTokens;
  return translateInThread(call.caller.projectId, call.body, toTranslationTarget(call, candidate, requests, maxTokens));
}

function toTranslationTarget(
  { stream }: Call,
  { dialect, model, traits }: Candidate,
  { takesReasoning, maxTokensField }: RequestFormat,
  maxTokens: number,
): TranslationTarget {
  return { dialect, model, ...(traits && { traits }), takesReasoning, maxTokensField, maxTokens, stream };
}

function sameResponse(response: VendorResponse): VendorResponse {
  return response;
}

/**
 * Returns the default output limit of the caller's key. Vendors reject values above the model's own limit, so we return
 * the model's limit if it's lower. Returns null if we don't add a limit.
 */
function addedLimitFor({ addsOutputLimit, maxOutputTokens }: Call, candidate: Candidate): number | null {
  if (!addsOutputLimit || maxOutputTokens === null) return null;
  return Math.min(maxOutputTokens, candidate.maxOutputTokens ?? maxOutputTokens);
}

/** Calls `translate`. If the dialect can't express the request, throws a VendorError. */
function refuseUntranslatable<Result>(translate: () => Result): Result {
  try {
    return translate();
  } catch (error) {
    if (!(error instanceof UntranslatableError)) throw error;
    const { message, details } = error;
    // If the error doesn't name the field, take it from the message. Messages about a single field start with its name.
    const param = error.param ?? /^[\w.[\]]+(?=: )/.exec(message)?.[0] ?? null;
    const report = { code: null, type: null, param, windowTokens: null, ...(details && { details }) };
    throw new VendorError('status', message, { status: 400, vendorMessage: message, report, isUntranslatable: true, cause: error });
  }
}
