/**
 * If the caller wants JSON and the model doesn't support structured output, we force the model to call this tool. Its
 * input becomes the text of the response. We recognize the tool by its name, so callers can't give that name to their
 * own tools.
 */
import type { AssistantTurn } from '../../core/call.ts';

export const jsonAnswerToolName = 'gateway_json_answer';

/** The caller doesn't know about the JSON tool, so its arguments become part of the text. */
export function toCallerTurn(turn: AssistantTurn): AssistantTurn {
  const jsonAnswers = turn.toolCalls.filter(({ name }) => name === jsonAnswerToolName);
  if (jsonAnswers.length === 0) return turn;
  const text = turn.text + jsonAnswers.map((call) => call.arguments).join('');
  return { text, toolCalls: turn.toolCalls.filter(({ name }) => name !== jsonAnswerToolName) };
}
