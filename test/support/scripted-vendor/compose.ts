/** Composes the reply that a model's name asks for. */
import {
  type ComposeReply,
  type Conversation,
  callTool,
  chooseTool,
  echo,
  type Reply,
  toReply,
} from '../../../src/demo-vendor/conversation.ts';
import { bigText, longText } from './filler.ts';
import { scriptOf } from './response.ts';
import type { Script } from './scripts.ts';

/** Ignores the caller's token limit unless we echo. A test needs exactly the response that its script describes. */
export const composeScripted: ComposeReply = (conversation, request): Reply => {
  const script = scriptOf(request);
  if (script.filtered) return toReply(conversation, { text: '', toolCalls: [], end: 'stop' });
  const toolCalls = conversation.toolResult === null ? composeToolCalls(conversation, script) : [];
  if (toolCalls.length > 0) return toReply(conversation, { text: '', toolCalls, end: 'tools' });
  const whole = composeText(conversation, script, request.body);
  const isBound = script.content.kind === 'echo' && conversation.schema === null;
  const text = isBound ? whole.slice(0, (conversation.maxTokens ?? Infinity) * 4) : whole;
  return toReply(conversation, { text, toolCalls: [], end: text.length < whole.length ? 'length' : 'stop' });
};

/** Returns the model's thinking. Empty if the model doesn't think. */
export function composeReasoning({ userText }: Conversation, { thinks }: Script): string {
  return thinks ? `The user said: ${userText}` : '';
}

function composeText(conversation: Conversation, { content }: Script, body: Buffer): string {
  switch (content.kind) {
    case 'body':
      return body.toString('utf8');
    case 'text':
      return content.text;
    case 'terms':
      return longText(content.count);
    case 'kibibytes':
      return bigText(content.count * 1_024);
    case 'echo':
    case 'tool':
    case 'tools-parallel':
    case 'tools-interleaved':
      return echo(conversation);
    default:
      return content satisfies never;
  }
}

function composeToolCalls(conversation: Conversation, { content }: Script): Reply['toolCalls'] {
  const [first = lookupTool, second = first] = conversation.tools;
  switch (content.kind) {
    case 'tool':
      return [callTool(first, conversation)];
    case 'tools-parallel':
    case 'tools-interleaved':
      return [callTool(first, conversation), callTool(second, conversation)];
    case 'echo': {
      const tool = chooseTool(conversation);
      return tool === undefined ? [] : [callTool(tool, conversation)];
    }
    default:
      return [];
  }
}

const lookupTool = { name: 'lookup', schema: { type: 'object', properties: { query: { type: 'string' } } } };
