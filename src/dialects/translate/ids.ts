/**
 * Translates the ids of responses, and the ids that connect a tool call with its result. We keep valid tool ids. If one
 * is invalid or missing, we derive a new one deterministically.
 */
import { createHash } from 'node:crypto';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asNonEmptyString } from '../json/lossless-json.ts';

/** The response's id and model, for vendors that don't send them. */
export interface ResponseIdentity {
  /** Usually the id of the call. If a tool call has no id, we derive one from this. */
  readonly id: string;
  readonly model: string;
}

/**
 * Clients and logs recognize a response by the prefix of its id, so the vendor's prefix is replaced by the one of the
 * caller's dialect.
 */
export function toResponseId(target: 'chat' | 'messages', id: string): string {
  return (target === 'chat' ? 'chatcmpl-' : 'msg_') + id.replace(/^(?:chatcmpl-|msg_)/, '');
}

export type ToolIds = ReturnType<typeof createToolIds>;

/** Assigns the ids of tool calls in one request. The calls have to follow the order of the request's messages. */
export function createToolIds(target: 'chat' | 'messages') {
  const pending: string[] = [];
  let generated = 0;
  return {
    forCall(id: unknown): string {
      const text = asNonEmptyString(id);
      const acceptable = text === null ? `${prefixes[target]}missing_${generated}` : toAcceptableId(target, text);
      if (text === null) generated += 1;
      pending.push(acceptable);
      return acceptable;
    },
    /** If a result has no id, it belongs to the oldest call without a result. */
    forResult(id: unknown): string {
      const text = asNonEmptyString(id);
      if (text === null) return pending.shift() ?? rejectUntranslatable('a tool result must belong to an earlier tool call');
      const acceptable = toAcceptableId(target, text);
      const position = pending.indexOf(acceptable);
      if (position >= 0) pending.splice(position, 1);
      return acceptable;
    },
  };
}

/** Creates an id for a tool call if the vendor didn't send one. It's the same for JSON and streams. */
export function createToolId(target: 'chat' | 'messages', responseId: string, position: number): string {
  return prefixes[target] + digest(`${responseId}:${position}`);
}

const prefixes = { chat: 'call_', messages: 'toolu_' } as const;
/** OpenAI doesn't accept longer ids for tool calls. */
const maxChatIdLength = 40;

/** Vendors use ids in many formats (e.g. `functions.f:0`), but Anthropic only accepts letters, digits, `_` and `-`. */
function toAcceptableId(target: 'chat' | 'messages', id: string): string {
  const isAcceptable = target === 'chat' ? id.length <= maxChatIdLength : /^[a-zA-Z0-9_-]+$/.test(id);
  return isAcceptable ? id : prefixes[target] + digest(id);
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 24);
}
