/** Writes generations as OpenAI responses. */
import type { Generation } from './generation.ts';
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

export const responsesWriter: DialectWriter = {
  // A background request returns immediately, before the model has generated anything.
  json: (generation, id) => responseOf(generation, id, generation.isBackground ? 'queued' : 'completed'),
  *stream(generation, id) {
    const { script } = generation;
    const [choice] = generation.choices;
    if (!choice) return;
    let sequence = 0;
    const piece = (type: string, data: object, tokens = 0): Piece => {
      sequence += 1;
      return { text: event(type, { type, sequence_number: sequence, ...data }), tokens };
    };
    yield piece('response.created', { response: responseOf(generation, id, 'in_progress') });
    if (generation.isBackground) yield piece('response.queued', { response: responseOf(generation, id, 'queued') });
    yield piece('response.in_progress', { response: responseOf(generation, id, 'in_progress') });
    for (const { text, tokens } of chunksOf(choice.reasoning, script.chunkTokens))
      yield piece('response.reasoning_summary_text.delta', { item_id: 'rs_1', output_index: 0, summary_index: 0, delta: text }, tokens);
    for (const { text, tokens } of chunksOf(choice.text, script.chunkTokens, script.opening))
      yield piece('response.output_text.delta', { item_id: 'msg_1', output_index: 1, content_index: 0, delta: text }, tokens);
    if (choice.argument > 0)
      yield piece(
        'response.function_call_arguments.delta',
        { item_id: 'fc_1', output_index: 2, delta: argumentText(choice) },
        choice.argument,
      );
    const end = choice.isCutOff ? 'incomplete' : 'completed';
    yield {
      ...piece(`response.${end}`, { response: responseOf(generation, id, end) }),
      ...(script.usage !== 'missing' && { hasUsage: true }),
    };
  },
};

type Status = 'queued' | 'in_progress' | 'completed' | 'incomplete';

function responseOf(generation: Generation, id: string, status: Status): object {
  const { script, webSearches, choices } = generation;
  const [choice] = choices;
  const isDone = status === 'completed' || status === 'incomplete';
  const isCutOff = choice?.isCutOff === true;
  return {
    id,
    object: 'response',
    created_at: 1,
    status: isDone && isCutOff ? 'incomplete' : status,
    incomplete_details: isDone && isCutOff ? { reason: 'max_output_tokens' } : null,
    error: null,
    model: generation.model.id.split('/')[1],
    background: generation.isBackground,
    service_tier: generation.tier,
    output:
      !isDone || !choice
        ? []
        : [
            ...(choice.reasoning > 0
              ? [{ id: 'rs_1', type: 'reasoning', summary: [{ type: 'summary_text', text: textOf(choice.reasoning) }] }]
              : []),
            ...Array.from({ length: webSearches }, (_, n) => ({
              id: `ws_${n}`,
              type: 'web_search_call',
              status: 'completed',
              action: { type: 'search', query: 'weather' },
            })),
            {
              id: 'msg_1',
              type: 'message',
              status: 'completed',
              role: 'assistant',
              content: [{ type: 'output_text', text: textOf(choice.text, script.opening), annotations: [] }],
            },
            ...(choice.argument > 0
              ? [
                  {
                    id: 'fc_1',
                    type: 'function_call',
                    status: 'completed',
                    call_id: 'call_1',
                    name: toolName,
                    arguments: argumentText(choice),
                  },
                ]
              : []),
          ],
    usage: isDone && script.usage !== 'missing' ? usageOf(generation) : null,
  };
}

function usageOf(generation: Generation): object {
  const { input, model } = generation;
  const whole = inputOf(generation);
  const output = outputOf(generation);
  return {
    input_tokens: whole,
    input_tokens_details: {
      cached_tokens: input.cachedInput,
      ...(model.writesCache && { cache_write_tokens: input.cacheWrite + input.cacheWrite1h }),
    },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoningOf(generation) },
    total_tokens: whole + output,
  };
}
