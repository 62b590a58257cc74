import { asArray, asString, type JsonObject } from '../../../core/json/narrow.ts';
import { createToolCallReader, listToolCalls, type StreamedCall, type ToolCallDelta, toArgumentText } from '../../chat/tool-calls.ts';
import { parseChatUsage } from '../../contract/token-usage.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject, toPlainNumbers } from '../../json/lossless-json.ts';
import { sealReasoning } from '../../json/sealed-reasoning.ts';
import { countReasoning, createChatSource } from '../chat-source.ts';
import { getContentText } from '../chat-text.ts';
import { createToolId } from '../ids.ts';
import { toIncompleteReason, toResponsesUsage } from '../stop-reasons.ts';
import { createStreamTranslator, keepAliveComment } from '../stream.ts';
import type { RequestEcho } from './request.ts';
import { createResponsesWriter, type ResponsesIdentity, type ResponsesWriter } from './writer.ts';

/** Converts a chat response that was parsed by `parseLossless`. Returns null if `answer` isn't a chat response. */
export function chatToResponse(answer: JsonObject, identity: ResponsesIdentity, echo: RequestEcho): JsonObject | null {
  const { message, finish_reason: finishReason } = asLosslessObject(asArray(answer.choices)[0]);
  if (!isLosslessObject(message)) return null;
  const writer = createResponsesWriter(identity, echo);
  writer.start(asNonEmptyString(answer.model));
  const reasoning = createReasoning();
  writer.reasoning(reasoning.add(message));
  endReasoning(writer, reasoning);
  writer.text(getContentText(message));
  writer.refusal(asString(message.refusal) ?? '');
  for (const [position, call] of listToolCalls(message).entries()) {
    const { name, arguments: argumentValue } = asLosslessObject(call.function);
    const id = asNonEmptyString(call.id) ?? createToolId('chat', identity.id, position);
    writer.startCall(position, { id, name: asString(name) ?? '' });
    writer.callArguments(position, toArgumentText(argumentValue));
    writer.endCall(position);
  }
  const usage = toPlainNumbers(answer.usage);
  writer.finish({
    incomplete: toIncompleteReason(finishReason),
    usage: toResponsesUsage(parseChatUsage(usage), countReasoning(usage) ?? 0),
  });
  return writer.response();
}

/**
 * Ends the reasoning, if there was any. The vendor may have encrypted it, so an item is written even if there's no
 * text.
 */
function endReasoning(writer: ResponsesWriter, reasoning: ReturnType<typeof createReasoning>): string {
  const sealed = reasoning.seal(writer.isReasoning());
  return sealed === null ? '' : writer.endReasoning(sealed);
}

function createReasoning() {
  let content = '';
  /** All of the reasoning text so far. It can come from several fields, depending on the vendor. */
  let text = '';
  let details: JsonObject[] = [];
  return {
    add(delta: JsonObject): string {
      const reasoningContent = asString(delta.reasoning_content) ?? '';
      content += reasoningContent;
      const added = asArray(delta.reasoning_details).map(asLosslessObject);
      for (const detail of added) addDetail(details, detail);
      const thinking = asArray(delta.content)
        .map(asLosslessObject)
        .filter(({ type }) => type === 'thinking');
      const texts = thinking.flatMap((part) => asArray(part.thinking).map((inner) => asString(asLosslessObject(inner).text) ?? ''));
      const detailText = added.map((detail) => asString(detail.text) ?? asString(detail.summary) ?? '').join('');
      // The entry that contains the signature may repeat the whole text. Don't add it twice.
      const more = reasoningContent || asString(delta.reasoning) || texts.join('') || (detailText === text ? '' : detailText);
      text += more;
      return more;
    },
    /**
     * Seals the reasoning since the last call, so that the caller can send it back to the vendor. Returns null if there
     * hasn't been any.
     *
     * We seal the text even if its vendor doesn't need it back, because the seal tells us later that the item is ours.
     * Otherwise we might send the item to a vendor with the responses route, which would reject an item that it didn't
     * create.
     */
    seal(hasText: boolean): string | null {
      const members = {
        ...(content === '' ? {} : { reasoning_content: content }),
        ...(details.length > 0 ? { reasoning_details: details } : {}),
      };
      content = '';
      text = '';
      details = [];
      return hasText || Object.keys(members).length > 0 ? sealReasoning(members) : null;
    },
  };
}

/**
 * Adds a piece of an entry in `reasoning_details`. Consecutive pieces with the same index and type belong to the same
 * entry.
 */
function addDetail(details: JsonObject[], piece: JsonObject): void {
  const last = details.at(-1);
  if (!last || last.type !== piece.type || last.index !== piece.index) {
    details.push(piece);
    return;
  }
  const merged = { ...last, ...piece };
  for (const name of ['text', 'summary', 'data', 'signature']) {
    const [before, more] = [asString(last[name]) ?? '', asString(piece[name]) ?? ''];
    if (before + more !== '') merged[name] = before + more;
  }
  details[details.length - 1] = merged;
}

export function createChatToResponses(identity: ResponsesIdentity, echo: RequestEcho) {
  const writer = createResponsesWriter(identity, echo);
  const source = createChatSource();
  const reasoning = createReasoning();
  const calls = createToolCallReader();
  /** Arguments that have arrived before the name of their call. */
  const unnamed = new Map<StreamedCall, string>();

  const startCall = (call: StreamedCall, argumentText: string): string => {
    unnamed.delete(call);
    const { position, name, id } = call;
    const started = writer.startCall(position, { id: id ?? createToolId('chat', identity.id, position), name });
    return started + writer.callArguments(position, argumentText);
  };

  const addCall = ({ call, isFirst, argumentText }: ToolCallDelta): string => {
    const waiting = isFirst ? '' : unnamed.get(call);
    if (waiting === undefined) return writer.callArguments(call.position, argumentText);
    if (call.name !== '') return startCall(call, waiting + argumentText);
    unnamed.set(call, waiting + argumentText);
    return '';
  };

  const usage = (): JsonObject | null => toResponsesUsage(source.end().tokens, source.end().reasoningTokens);

  const translator = createStreamTranslator(source, {
    start: ({ chunk }) => writer.start(asNonEmptyString(chunk.model)),
    add({ delta }) {
      const thought = writer.reasoning(reasoning.add(delta));
      const [text, refusal, called] = [getContentText(delta), asString(delta.refusal) ?? '', calls.read(delta)];
      const isThinking = text === '' && refusal === '' && called.length === 0;
      const ended = isThinking ? '' : endReasoning(writer, reasoning);
      return thought + ended + writer.text(text) + writer.refusal(refusal) + called.map(addCall).join('');
    },
    finish() {
      const thought = endReasoning(writer, reasoning);
      const rest = [...unnamed].map(([call, argumentText]) => startCall(call, argumentText)).join('');
      return thought + rest + writer.finish({ incomplete: toIncompleteReason(source.end().finishReason), usage: usage() });
    },
    fail: (message) => writer.fail(message, usage()),
    keepAlive: keepAliveComment,
  });
  return { ...translator, /** Returns what was sent so far as a JSON response. */ response: writer.response };
}
