/** Ids that join a tool call with its result. They are kept; what a vendor would refuse, or what is missing, is made, always the same. */
import { createHash } from 'node:crypto';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asNonEmptyString } from '../json/lossless-json.ts';

/** Ids of one request, in the order of its messages. */
export interface ToolIds {
  forCall(id: unknown): string;
  /** A result without id answers the oldest call that has no result yet. */
  forResult(id: unknown): string;
}

export function createToolIds(target: 'chat' | 'messages'): ToolIds {
  const unanswered: string[] = [];
  let made = 0;
  return {
    forCall(id) {
      const text = asNonEmptyString(id);
      const known = text === null ? `${prefixes[target]}missing_${made}` : toAcceptableId(target, text);
      if (text === null) made += 1;
      unanswered.push(known);
      return known;
    },
    forResult(id) {
      const text = asNonEmptyString(id);
      if (text === null) return unanswered.shift() ?? rejectUntranslatable('a tool result belongs to no tool call');
      const known = toAcceptableId(target, text);
      const position = unanswered.indexOf(known);
      if (position >= 0) unanswered.splice(position, 1);
      return known;
    },
  };
}

/** Id of a tool call in an answer whose vendor gave none: the same for the streamed and the plain answer. */
export function createToolId(target: 'chat' | 'messages', responseId: string, position: number): string {
  return prefixes[target] + digest(`${responseId}:${position}`);
}

const prefixes = { chat: 'call_', messages: 'toolu_' } as const;
/** OpenAI allows 40 characters in an id of chat. */
const maxChatIdLength = 40;

/** Vendors' own ids come in many forms (`functions.f:0`); Anthropic takes letters, digits, `_` and `-` only. */
function toAcceptableId(target: 'chat' | 'messages', id: string): string {
  const isAcceptable = target === 'chat' ? id.length <= maxChatIdLength : /^[a-zA-Z0-9_-]+$/.test(id);
  return isAcceptable ? id : prefixes[target] + digest(id);
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 24);
}
