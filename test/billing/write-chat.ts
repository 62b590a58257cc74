/** Writes generations as OpenAI chat completions. */
import type { Choice, Generation } from './generation.ts';
import { outputTokens } from './generation.ts';
import {
  argumentText,
  chunksOf,
  type DialectWriter,
  event,
  inputOf,
  outputOf,
  type Piece,
  reasoningOf,
  textOf,
  toolName,
} from './writing.ts';

export const chatWriter: DialectWriter = {
  json: (generation, id) => ({
    id,
    object: 'chat.completion',
    created: 1,
    model: generation.model.id.split('/')[1],
    choices: generation.choices.map((choice, index) => ({
      index,
      message: {
        role: 'assistant',
        content: textOf(choice.text, generation.script.opening),
        ...(choice.reasoning > 0 && { reasoning_content: textOf(choice.reasoning) }),
        ...(choice.argument > 0 && { tool_calls: [toolCall(index, argumentText(choice))] }),
      },
      finish_reason: finishOf(choice),
    })),
    ...(generation.script.usage !== 'missing' && { usage: usageOf(generation, outputOf(generation)) }),
    service_tier: generation.tier,
  }),
  *stream(generation, id) {
    const { usage } = generation.script;
    let sent = generation.choices.reduce((sum, { hidden }) => sum + hidden, 0);
    const chunk = (choices: object[], tokens: number, isFinal: boolean): Piece => {
      sent += tokens;
      const hasUsage = usage === 'in every chunk' || (usage === 'with the finish' && isFinal);
      const data = {
        id,
        object: 'chat.completion.chunk',
        created: 1,
        model: generation.model.id.split('/')[1],
        service_tier: generation.tier,
        choices,
        ...(hasUsage && { usage: usageOf(generation, sent) }),
      };
      return { text: event('', data), tokens, ...(hasUsage && isFinal && { hasUsage: true }) };
    };
    const waiting = generation.choices.map((choice, index) => deltasOf(choice, index, generation)[Symbol.iterator]());
    let open = waiting.length;
    if (usage === 'before the content') {
      const data = { id, object: 'chat.completion.chunk', created: 1, choices: [], usage: usageOf(generation, 0) };
      yield { text: event('', data), tokens: 0 };
    }
    while (open > 0) {
      for (const [index, deltas] of waiting.entries()) {
        const next = deltas.next();
        if (next.done === true) continue;
        const { delta, finish, tokens } = next.value;
        if (finish !== null) open -= 1;
        yield chunk([{ index, delta, finish_reason: finish }], tokens, finish !== null && open === 0);
      }
    }
    if (usage === 'at the end') {
      const data = { id, object: 'chat.completion.chunk', created: 1, choices: [], usage: usageOf(generation, outputOf(generation)) };
      yield { text: event('', data), tokens: 0, hasUsage: true };
    }
    yield { text: 'data: [DONE]\n\n', tokens: 0 };
  },
};

interface Delta {
  readonly delta: object;
  readonly finish: string | null;
  readonly tokens: number;
}

function* deltasOf(choice: Choice, index: number, { script }: Generation): Iterable<Delta> {
  yield { delta: { role: 'assistant', content: '' }, finish: null, tokens: 0 };
  for (const { text, tokens } of chunksOf(choice.reasoning, script.chunkTokens))
    yield { delta: { reasoning_content: text }, finish: null, tokens };
  for (const { text, tokens } of chunksOf(choice.text, script.chunkTokens, script.opening))
    yield { delta: { content: text }, finish: null, tokens };
  if (choice.argument > 0) {
    const argument = argumentText(choice);
    const half = Math.floor(argument.length / 2);
    const call = toolCall(index, argument.slice(0, half));
    yield { delta: { tool_calls: [{ index: 0, ...call }] }, finish: null, tokens: Math.floor(choice.argument / 2) };
    yield {
      delta: { tool_calls: [{ index: 0, function: { arguments: argument.slice(half) } }] },
      finish: null,
      tokens: Math.ceil(choice.argument / 2),
    };
  }
  yield { delta: {}, finish: finishOf(choice), tokens: 0 };
}

function toolCall(index: number, argument: string) {
  return { id: `call_${index}`, type: 'function', function: { name: toolName, arguments: argument } };
}

function finishOf({ isCutOff, argument }: Choice): string {
  if (isCutOff) return 'length';
  return argument > 0 ? 'tool_calls' : 'stop';
}

/** Returns the usage after `output` tokens. Some vendors send this cumulative usage in every chunk. */
function usageOf(generation: Generation, output: number): object {
  const { model, input, choices } = generation;
  const reasoning = Math.min(output, reasoningOf(generation));
  const isWhole = output >= choices.reduce((sum, choice) => sum + outputTokens(choice), 0);
  const prompt = inputOf(generation);
  return {
    prompt_tokens: prompt,
    completion_tokens: model.reasoning === 'inside completion' ? output : output - reasoning,
    total_tokens: prompt + output,
    prompt_tokens_details: {
      cached_tokens: input.cachedInput,
      ...(model.writesCache && { cache_write_tokens: input.cacheWrite + input.cacheWrite1h }),
    },
    completion_tokens_details: { reasoning_tokens: isWhole ? reasoningOf(generation) : reasoning },
  };
}
