/**
 * If the caller wants JSON and the model doesn't support structured output, we force the model to call this tool and
 * use the input as the text of the response. We recognize the tool by its name, so callers can't use this name for
 * their own tools.
 */
import type { AssistantTurn } from '../../core/call.ts';

export const jsonAnswerToolName = 'gateway_json_answer';

/**
 * Replaces calls of the JSON answer tool by their arguments as text, because the caller doesn't know about this tool.
 */
export function toCallerTurn(turn: AssistantTurn): AssistantTurn {
  const jsonAnswers = turn.toolCalls.filter(({ name }) => name === jsonAnswerToolName);
  if (jsonAnswers.length === 0) return turn;
  const text = turn.text + jsonAnswers.map((call) => call.arguments).join('');
  return { text, toolCalls: turn.toolCalls.filter(({ name }) => name !== jsonAnswerToolName) };
}
