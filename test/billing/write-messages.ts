/** Writes generations as Anthropic messages. */
import type { Tokens } from '../../src/core/pricing.ts';
import type { Choice, Generation } from './generation.ts';
import { totalTokens } from './ledger.ts';
import { argumentText, chunksOf, type DialectWriter, event, outputOf, type Piece, textOf, toolName } from './writing.ts';

export const messagesWriter: DialectWriter = {
  json(generation, id) {
    const choice = onlyChoice(generation);
    return {
      ...messageOf(generation, id),
      content: [
        ...(choice.reasoning > 0 ? [{ type: 'thinking', thinking: textOf(choice.reasoning), signature: 'c2lnbmVk' }] : []),
        { type: 'text', text: textOf(choice.text, generation.script.opening) },
        ...(choice.argument > 0
          ? [{ type: 'tool_use', id: 'toolu_1', name: toolName, input: JSON.parse(argumentText(choice)) as object }]
          : []),
      ],
      stop_reason: stopReason(choice),
      ...(generation.script.usage === 'missing'
        ? {}
        : { usage: { ...inputUsage(generation), ...outputUsage(generation, outputOf(generation)) } }),
    };
  },
  *stream(generation, id) {
    const { script } = generation;
    const choice = onlyChoice(generation);
    const hasUsage = script.usage !== 'missing';
    const start = { ...messageOf(generation, id), content: [], stop_reason: null };
    yield piece('message_start', { message: { ...start, ...(hasUsage && { usage: { ...inputUsage(generation), output_tokens: 1 } }) } });
    let index = 0;
    let sent = choice.hidden;
    function* block(content: object, deltas: Iterable<{ delta: object; tokens: number }>): Iterable<Piece> {
      yield piece('content_block_start', { index, content_block: content });
      for (const { delta, tokens } of deltas) {
        sent += tokens;
        yield piece('content_block_delta', { index, delta }, tokens);
      }
      yield piece('content_block_stop', { index });
      index += 1;
      if (script.usage === 'in every chunk') yield piece('message_delta', { delta: { stop_reason: null }, usage: { output_tokens: sent } });
    }
    const deltas = function* (type: string, name: string, tokens: number, opening = '') {
      for (const chunk of chunksOf(tokens, script.chunkTokens, opening))
        yield { delta: { type, [name]: chunk.text }, tokens: chunk.tokens };
    };
    if (choice.reasoning > 0)
      yield* block({ type: 'thinking', thinking: '', signature: '' }, [
        ...deltas('thinking_delta', 'thinking', choice.reasoning),
        { delta: { type: 'signature_delta', signature: 'c2lnbmVk' }, tokens: 0 },
      ]);
    yield* block({ type: 'text', text: '' }, deltas('text_delta', 'text', choice.text, script.opening));
    if (choice.argument > 0)
      yield* block({ type: 'tool_use', id: 'toolu_1', name: toolName, input: {} }, [
        { delta: { type: 'input_json_delta', partial_json: argumentText(choice) }, tokens: choice.argument },
      ]);
    const endsWithUsage = hasUsage && script.usage !== 'before the content';
    const usage = hasUsage ? { usage: endsWithUsage ? outputUsage(generation, outputOf(generation)) : {} } : {};
    yield {
      ...piece('message_delta', { delta: { stop_reason: stopReason(choice), stop_sequence: null }, ...usage }),
      ...(endsWithUsage && { hasUsage: true }),
    };
    yield piece('message_stop', {});
  },
};

function piece(type: string, data: object, tokens = 0): Piece {
  return { text: event(type, { type, ...data }), tokens };
}

function onlyChoice({ choices }: Generation): Choice {
  const [choice] = choices;
  if (!choice) throw new Error('a message has one choice');
  return choice;
}

function messageOf({ model }: Generation, id: string) {
  return { id, type: 'message', role: 'assistant', model: model.id.split('/')[1], stop_sequence: null };
}

function inputUsage({ input }: Generation) {
  return inputCounts(input);
}

function inputCounts(input: Tokens) {
  return {
    input_tokens: input.input,
    cache_read_input_tokens: input.cachedInput,
    cache_creation_input_tokens: input.cacheWrite + input.cacheWrite1h,
    cache_creation: { ephemeral_5m_input_tokens: input.cacheWrite, ephemeral_1h_input_tokens: input.cacheWrite1h },
  };
}

function outputUsage({ webSearches, input, compaction }: Generation, output: number) {
  const iterations = [
    { type: 'compaction', ...countsOf(compaction) },
    { type: 'message', ...countsOf({ ...input, output }) },
  ];
  return {
    output_tokens: output,
    ...(webSearches > 0 && { server_tool_use: { web_search_requests: webSearches } }),
    ...(totalTokens(compaction) > 0 && { iterations }),
  };
}

function countsOf(tokens: Tokens) {
  return { ...inputCounts(tokens), output_tokens: tokens.output };
}

function stopReason({ isCutOff, argument }: Choice): string {
  if (isCutOff) return 'max_tokens';
  return argument > 0 ? 'tool_use' : 'end_turn';
}
