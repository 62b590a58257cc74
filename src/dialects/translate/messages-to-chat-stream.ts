import { asObject, type JsonObject } from '../../core/json/narrow.ts';
import { formatEvent } from '../../core/sse.ts';
import { asNonEmptyString } from '../json/lossless-json.ts';
import { readThinkingBlock, toReasoningDetail } from './chat-reasoning.ts';
import { createToolId, type ResponseIdentity, toResponseId } from './ids.ts';
import { createBlockReader } from './messages-blocks.ts';
import { createMessagesSource } from './messages-source.ts';
import { toChatUsage, toFinishReason } from './stop-reasons.ts';
import { createStreamTranslator, keepAliveComment, type StreamTranslator } from './stream.ts';

export function createStreamToChat(identity: ResponseIdentity & { readonly createdSeconds: number }): StreamTranslator {
  let { id, model } = identity;
  let usageEvent: string | undefined;
  let detailCount = 0;

  const headMembers = (): JsonObject => ({ id, object: 'chat.completion.chunk', created: identity.createdSeconds, model });
  /** All chunks start with the same fields. They're serialized only once, without the closing brace. */
  let head = '';
  const deltaChunk = (delta: JsonObject, finishReason: string | null = null): string =>
    `data: ${head},"choices":[{"index":0,"delta":${JSON.stringify(delta)},"logprobs":null,"finish_reason":${JSON.stringify(finishReason)}}]}\n\n`;
  const callChunk = (call: JsonObject): string => deltaChunk({ tool_calls: [call] });

  const source = createMessagesSource();
  const blocks = createBlockReader({
    text: (piece) => (piece === '' ? '' : deltaChunk({ content: piece })),
    thinking: (piece) => (piece === '' ? '' : deltaChunk({ reasoning_content: piece })),
    /**
     * Adds an entry to `reasoning_details` for signed or encrypted reasoning. The entry has both the signature and all
     * of the text that it covers.
     */
    endThinking(block) {
      const [part] = readThinkingBlock(block);
      if (part === undefined || (part.kind === 'text' && part.signature === '')) return '';
      detailCount += 1;
      return deltaChunk({ reasoning_details: [toReasoningDetail(part, detailCount - 1)] });
    },
    startTool: (index, { id: toolId, name }) =>
      callChunk({ index, id: toolId ?? createToolId('chat', id, index), type: 'function', function: { name, arguments: '' } }),
    toolInput: (index, piece) => callChunk({ index, function: { arguments: piece } }),
    endTool: () => '',
  });

  const translator = createStreamTranslator(source, {
    start({ event }) {
      const message = asObject(event.message);
      id = toResponseId('chat', asNonEmptyString(message.id) ?? id);
      model = asNonEmptyString(message.model) ?? model;
      head = JSON.stringify(headMembers()).slice(0, -1);
      return deltaChunk({ role: 'assistant', content: '' });
    },
    add: blocks.addPart,
    finish() {
      const { stopReason, tokens } = source.end();
      if (tokens !== null) usageEvent = formatEvent(null, { ...headMembers(), choices: [], usage: toChatUsage(tokens) });
      const last = deltaChunk({}, toFinishReason(stopReason, blocks.toolCount() > 0));
      return `${blocks.end()}${last}${usageEvent ?? ''}data: [DONE]\n\n`;
    },
    keepAlive: keepAliveComment,
  });
  return { ...translator, state: () => ({ ...translator.state(), usageEvent }) };
}
