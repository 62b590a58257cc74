/** Continues the conversation in the playground's form with a response, and adds or removes turns. */
import type { PlaygroundTurn } from '../../pipeline/internal/playground-prompt.ts';
import { allTurns, newTurn, type PlaygroundInput, readInput, readToolCalls } from './input.ts';

/**
 * Runs the command in the field `do`: `continue.<n>` continues with the nth response, `add` adds a turn, `remove.<n>`
 * removes the nth one, and `clear` removes all of them.
 */
export function editConversation(fields: URLSearchParams): PlaygroundInput {
  const input = readInput(fields);
  const [verb, position] = (fields.get('do') ?? '').split('.');
  const index = Number(position);
  const said = allTurns(input);
  const afterMessage = { ...input, prompt: '', images: [] };
  switch (verb) {
    case 'continue':
      return { ...afterMessage, turns: [...said, ...readResponse(fields, index)] };
    case 'add':
      return { ...afterMessage, turns: [...said, newTurn(said.at(-1)?.role === 'user' ? 'assistant' : 'user')] };
    case 'remove':
      return { ...input, turns: input.turns.filter((_, place) => place !== index) };
    case 'clear':
      return { ...afterMessage, turns: [] };
    default:
      return input;
  }
}

/**
 * Turns a response on the page into a turn of the assistant. If it calls tools, an empty turn is added for each result.
 */
function readResponse(fields: URLSearchParams, index: number): PlaygroundTurn[] {
  const text = (fields.getAll('answer_text')[index] ?? '').replaceAll('\r\n', '\n');
  const toolCalls = readToolCalls(fields.getAll('answer_calls')[index] ?? '');
  if (text === '' && toolCalls.length === 0) return [];
  return [newTurn('assistant', { text, toolCalls }), ...toolCalls.map(({ id }) => newTurn('tool', { toolCallId: id }))];
}
