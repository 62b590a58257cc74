/** Fills in the playground's form from a stored call, so that people can change the call and run it again. */
import { asObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { CallText } from '../../memory/conversations/read-call-text.ts';
import type { PlaygroundToolCall, PlaygroundTurn } from '../../pipeline/internal/playground-prompt.ts';
import type { CallDetail } from '../../usage/analytics/call-detail.ts';
import { newTurn, type PlaygroundInput, readInput } from './input.ts';

interface Prefill {
  readonly input: PlaygroundInput;
  /** Sentences that tell people which parts of the call we couldn't fill in. */
  readonly gaps: readonly string[];
}

/**
 * Fills in the form with a call. If the text of the call isn't stored, `text` is null and only the model is filled in.
 */
export function prefillFrom({ requestedModel, route }: Pick<CallDetail, 'requestedModel' | 'route'>, text: CallText | null): Prefill {
  const empty = { ...readInput(new URLSearchParams()), model: requestedModel };
  if (text === null) return { input: empty, gaps: [`No text of this ${route} call is stored, so only the model was filled in.`] };
  const { messages, answered, hasOlder, extras, hasMoreExtras } = text;
  const prompt = answered ? messages.slice(0, -1) : messages;
  const results = extras.filter(({ kind }) => kind === 'tool_result').map((extra) => extra.text ?? '');
  const { turns, unanswered } = toTurns(prompt, results);
  const last = turns.at(-1);
  const tools = extras.filter(({ kind }) => kind === 'tool').map((extra) => parseJson(extra.text ?? ''));
  const known = tools.filter((tool) => tool !== undefined && !isHosted(tool));
  const binaries = extras.filter(({ kind }) => kind === 'binary').length;
  const gaps = [
    hasOlder && 'The oldest messages of the call are missing.',
    hasMoreExtras && 'Some system prompts, tools or tool results of the call are missing.',
    [...prompt, ...extras].some((part) => part.isCut) && 'Long texts are cut off.',
    known.length < tools.length && 'Tools that the vendor runs are missing, because the playground has no field for them.',
    unanswered && 'Some tool results are not stored, so their turns are empty.',
    binaries > 0 && 'Images and files are missing, because the gateway does not store them.',
    extras.some(({ kind }) => kind === 'other') && 'Some blocks of the prompt are missing, because the playground has no field for them.',
  ].filter((gap) => gap !== false);
  const isMessage = last?.role === 'user';
  return {
    input: {
      ...empty,
      system: extras
        .filter(({ kind }) => kind === 'system')
        .map((extra) => extra.text ?? '')
        .join('\n\n'),
      turns: isMessage ? turns.slice(0, -1) : turns,
      prompt: isMessage ? last.text : '',
      tools: known.length === 0 ? '' : JSON.stringify(known, null, 2),
    },
    gaps,
  };
}

/**
 * Tool results are stored separately from the messages, but in the same order as the tool calls, so we match them by
 * position. If there aren't as many results as calls, we can't tell which ones are missing and leave all of them empty.
 */
function toTurns(messages: CallText['messages'], results: readonly string[]): { turns: PlaygroundTurn[]; unanswered: boolean } {
  let called = 0;
  const calledTools = messages.reduce((sum, { toolCalls }) => sum + toolCalls.length, 0);
  const areComplete = calledTools === results.length;
  const turns = messages.flatMap(({ role, text, toolCalls }): PlaygroundTurn[] => {
    const calls: PlaygroundToolCall[] = toolCalls.map((call, index) => ({ ...call, id: `call_${called + index + 1}` }));
    const answers = calls.map(({ id }, index) => {
      const result = areComplete ? (results[called + index] ?? '') : '';
      return newTurn('tool', { text: result, toolCallId: id });
    });
    called += calls.length;
    return [newTurn(role, { text, toolCalls: calls }), ...answers];
  });
  return { turns, unanswered: calledTools > 0 && !areComplete };
}

/** Recognizes tools that the vendor runs, e.g. `{"type": "web_search"}`. */
function isHosted(tool: unknown): boolean {
  const { type, function: definition, input_schema: inputSchema, parameters } = asObject(tool);
  return definition === undefined && inputSchema === undefined && parameters === undefined && type !== 'custom';
}
