/**
 * The tool that a model without structured answers is made to call when the caller wants JSON: its input is the text of the answer.
 * It is known by its name alone, so no caller may have a tool that is called so.
 */
import type { AssistantTurn } from '../../core/call.ts';

export const jsonAnswerToolName = 'gateway_json_answer';

/** What the assistant said as the caller heard it; `turn` is as the vendor said it. */
export function toCallerTurn(turn: AssistantTurn): AssistantTurn {
  const answers = turn.toolCalls.filter(({ name }) => name === jsonAnswerToolName);
  if (answers.length === 0) return turn;
  const text = turn.text + answers.map((answer) => answer.arguments).join('');
  return { text, toolCalls: turn.toolCalls.filter(({ name }) => name !== jsonAnswerToolName) };
}
