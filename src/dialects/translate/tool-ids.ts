/**
 * Creates the ids that connect a tool call with its result. Valid ids are kept. If an id is invalid or missing, we
 * always derive the same replacement.
 */
import { createHash } from 'node:crypto';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asNonEmptyString } from '../json/lossless-json.ts';

/** Fills the gaps if the vendor's response has no id or model. */
export interface ResponseIdentity {
  /** Usually the id of the call. If the vendor doesn't send ids for tool calls, we derive them from this. */
  readonly id: string;
  readonly model: string;
}

/** The ids of tool calls in one request. Call these functions in the order of its messages. */
export interface ToolIds {
  forCall(id: unknown): string;
  /** A result without an id belongs to the oldest call that has no result yet. */
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
      if (text === null) return pending.shift() ?? rejectUntranslatable('a tool result has no matching tool call');
      const acceptable = toAcceptableId(target, text);
      const position = pending.indexOf(acceptable);
      if (position >= 0) pending.splice(position, 1);
      return acceptable;
    },
  };
}

/** Creates an id for a tool call if the vendor didn't send one. JSON and streamed responses get the same id. */
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
