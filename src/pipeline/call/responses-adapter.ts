/**
 * Adapts a call to `/v1/responses` to a vendor without that route. We translate the request to the vendor's dialect and
 * translate the response and its stream back. See docs/architecture/translation.md#responses.
 */
import type { Call } from '../../core/call.ts';
import type { Candidate, ModelTraits } from '../../core/candidate.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../../dialects/contract/untranslatable.ts';
import { asLosslessObject, omitNullish } from '../../dialects/json/lossless-json.ts';
import { parseLossless } from '../../dialects/json/parse-lossless.ts';
import { readAssistantTurn } from '../../dialects/passthrough/responses.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import { requestToMessages } from '../../dialects/translate/chat-to-messages.ts';
import { createChanges } from '../../dialects/translate/request-changes.ts';
import { chatToResponse, createChatToResponses } from '../../dialects/translate/responses/from-chat.ts';
import { createMessagesToResponses, messagesToResponse } from '../../dialects/translate/responses/from-messages.ts';
import { translateResponsesRequest } from '../../dialects/translate/responses/request.ts';
import type { VendorResponse } from '../../vendors/text.ts';
import { translateJson, translateStream, withBody, withTurn } from './translate-response.ts';

export interface ResponsesTarget {
  readonly candidate: Candidate;
  readonly maxTokensField: 'max_completion_tokens' | 'max_tokens';
  /** The form in which a chat vendor expects the reasoning of earlier turns. */
  readonly takesReasoning: NonNullable<ModelTraits['takesReasoning']>;
  /** The output limit for messages vendors if the caller didn't set one, because their dialect requires a limit. */
  readonly maxTokens: number;
  /**
   * True if the translation may leave out tools that only OpenAI can run. It's false if a later candidate can run them,
   * and the translation fails instead.
   */
  readonly mayOmitTools: boolean;
  /** The output limit that we send to a chat vendor if the caller didn't set one. Null to send no limit. */
  readonly addedLimit: number | null;
}

/** Creates the adapter. Throws UntranslatableError. */
export function responsesAdapterFor(call: Call, responsesTarget: ResponsesTarget) {
  const { candidate, maxTokensField, maxTokens, addedLimit, takesReasoning, mayOmitTools } = responsesTarget;
  const { dialect, model, traits } = candidate;
  const { stream } = call;
  const parsed = parseLossless(call.body.toString('utf8'));
  if (parsed === undefined) rejectUntranslatable('the body is nested too deeply, or has too many values, to be translated');
  const changes = createChanges();
  const form = dialect === 'messages' ? 'messages' : takesReasoning;
  const { chat, echo } = translateResponsesRequest(asLosslessObject(parsed), form, { mayOmitTools, changes });
  if (dialect === 'chat' && traits?.reasons === false && isSet(chat.reasoning_effort)) changes.dropped.add('reasoning.effort');
  const ofChat = createChanges();
  const body =
    dialect === 'messages'
      ? requestToMessages(chat, { ...traits, model, stream, maxTokens }, ofChat)
      : toChatRequest(chat, { model, stream, maxTokensField, addedLimit, reasons: traits?.reasons !== false });
  for (const name of ofChat.dropped) changes.dropped.add(toResponsesName(name));
  for (const name of ofChat.adjusted) changes.adjusted.add(toResponsesName(name));
  const identity = { id: call.id, model, createdSeconds: Math.floor(call.startedAt / 1000) };
  const toResponse = dialect === 'messages' ? messagesToResponse : chatToResponse;
  const createTranslator = dialect === 'messages' ? createMessagesToResponses : createChatToResponses;
  return {
    codec: routeCodecs[dialect],
    body: Buffer.from(JSON.stringify(body)),
    changes,
    toCallerResponse(response: VendorResponse): VendorResponse {
      if (response.kind === 'stream') {
        const translator = createTranslator(identity, echo);
        const summary = () => withTurn(response.summary(), () => readAssistantTurn(translator.response()));
        return { ...translateStream(response, translator), summary };
      }
      const body = translateJson(response, (answer) => toResponse(answer, identity, echo));
      return { ...withBody(response, body), summary: withTurn(response.summary, () => readAssistantTurn(body)) };
    },
  };
}

/** Maps the name of a chat field back to the `/v1/responses` field that it was translated from. */
function toResponsesName(name: string): string {
  return name
    .replace(/^reasoning_effort$/, 'reasoning.effort')
    .replace(/^response_format(?:\.json_schema)?/, 'text.format')
    .replace(/^messages\b/, 'input')
    .replace(/^tools\.function\b/, 'tools');
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

interface ChatSettings {
  readonly model: string;
  readonly stream: boolean;
  readonly maxTokensField: ResponsesTarget['maxTokensField'];
  readonly addedLimit: ResponsesTarget['addedLimit'];
  readonly reasons: boolean;
}

function toChatRequest(chat: JsonObject, { model, stream, maxTokensField, addedLimit, reasons }: ChatSettings): JsonObject {
  const { max_completion_tokens: maxTokens, reasoning_effort: effort, ...rest } = chat;
  return omitNullish({
    model,
    ...rest,
    [maxTokensField]: maxTokens ?? addedLimit,
    reasoning_effort: reasons ? effort : null,
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  });
}
