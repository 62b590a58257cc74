/** Ids that connect a tool call with its result. Valid ids stay; invalid or missing ones are replaced deterministically. */
import { createHash } from 'node:crypto';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asNonEmptyString } from '../json/lossless-json.ts';

/** Defaults for members that a vendor omitted from its response. */
export interface ResponseIdentity {
  /** The call's id, for instance; missing ids of tool calls are derived from it. */
  readonly id: string;
  readonly model: string;
}

/** Ids of one request; call in the order of its messages. */
export interface ToolIds {
  forCall(id: unknown): string;
  /** A result without an id belongs to the oldest call that has no result. */
  forResult(id: unknown): string;
}

export function createToolIds(target: 'chat' | 'messages'): ToolIds {
  const pending: string[] = [];
  let generated = 0;
  return {
    forCall(id) {
      const text = asNonEmptyString(id);
      const acceptable = text === null ? `${prefixes[target]}missing_${generated}` : toAcceptableId(target, text);
      if (text === null) generated += 1;
      pending.push(acceptable);
      return acceptable;
    },
    forResult(id) {
      const text = asNonEmptyString(id);
      if (text === null) return pending.shift() ?? rejectUntranslatable('a tool result belongs to no tool call');
      const acceptable = toAcceptableId(target, text);
      const position = pending.indexOf(acceptable);
      if (position >= 0) pending.splice(position, 1);
      return acceptable;
    },
  };
}

/** Id for a tool call whose vendor sent none: the same in the streamed and the JSON response. */
export function createToolId(target: 'chat' | 'messages', responseId: string, position: number): string {
  return prefixes[target] + digest(`${responseId}:${position}`);
}

const prefixes = { chat: 'call_', messages: 'toolu_' } as const;
/** OpenAI's limit for the ids of tool calls. */
const maxChatIdLength = 40;

/** Vendors' ids have many forms (`functions.f:0`); Anthropic accepts only letters, digits, `_` and `-`. */
function toAcceptableId(target: 'chat' | 'messages', id: string): string {
  const isAcceptable = target === 'chat' ? id.length <= maxChatIdLength : /^[a-zA-Z0-9_-]+$/.test(id);
  return isAcceptable ? id : prefixes[target] + digest(id);
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 24);
}
