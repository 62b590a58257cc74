/**
 * The tool that a model without structured output is forced to call when the caller wants JSON: its input is the text of the response.
 * It is recognized by its name, so callers may not have a tool of that name.
 */
import type { AssistantTurn } from '../../core/call.ts';

export const jsonAnswerToolName = 'gateway_json_answer';

/** The assistant's turn as the caller received it; `turn` is the vendor's. */
export function toCallerTurn(turn: AssistantTurn): AssistantTurn {
  const jsonAnswers = turn.toolCalls.filter(({ name }) => name === jsonAnswerToolName);
  if (jsonAnswers.length === 0) return turn;
  const text = turn.text + jsonAnswers.map((call) => call.arguments).join('');
  return { text, toolCalls: turn.toolCalls.filter(({ name }) => name !== jsonAnswerToolName) };
}
