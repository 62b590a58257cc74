/** Fields of chat requests, with values that have an effect. */
import type { Place } from '../sdk-members.ts';

const hi = { role: 'user', content: 'hi' };
const schema = { type: 'object', properties: { city: { type: 'string' } } };
const chatTool = { type: 'function', function: { name: 'f', parameters: schema } };
const marker = { mode: 'explicit' };
const chatCall = {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
};

export const chatPlaces: readonly Place[] = [
  {
    type: ['completions', 'ChatCompletionCreateParamsBase'],
    request: { model: 'standard', messages: [hi], tools: [chatTool] },
    at: [],
    values: {
      ...{
        messages: [hi, hi],
        model: 'standard',
        audio: { voice: 'alloy', format: 'wav' },
        frequency_penalty: 0.5,
        function_call: { name: 'f' },
      },
      ...{ functions: [{ name: 'f' }], logit_bias: { 5: 1 }, logprobs: true, max_completion_tokens: 9_000, max_tokens: 8_000 },
      ...{ metadata: { a: 'b' }, modalities: ['text', 'audio'], moderation: { model: 'm' }, n: 2, parallel_tool_calls: false },
      ...{ prediction: { type: 'content', content: 'x' }, presence_penalty: 1, prompt_cache_key: 'k', prompt_cache_options: marker },
      ...{
        prompt_cache_retention: '24h',
        reasoning_effort: 'high',
        response_format: { type: 'json_object' },
        safety_identifier: 's',
        seed: 1,
      },
      ...{
        service_tier: 'priority',
        stop: ['END'],
        store: true,
        stream: true,
        stream_options: { include_obfuscation: true },
        temperature: 1.5,
      },
      ...{ tool_choice: 'none', tools: [chatTool, { type: 'function', function: { name: 'g' } }], top_logprobs: 2, top_p: 0.5, user: 'u' },
      ...{ verbosity: 'low', web_search_options: {} },
    },
  },
  ...['User', 'System', 'Developer'].map((role) => ({
    type: ['completions', `ChatCompletion${role}MessageParam`] as const,
    request: { messages: [hi, { role: role.toLowerCase(), content: 'A' }] },
    at: ['messages', 1],
    values: { content: 'B', role: role.toLowerCase(), name: 'Ada' },
  })),
  {
    type: ['completions', 'ChatCompletionAssistantMessageParam'],
    request: { messages: [hi, { role: 'assistant', content: 'A' }, hi] },
    at: ['messages', 1],
    values: {
      ...{
        role: 'assistant',
        audio: { id: 'a' },
        content: 'B',
        function_call: { name: 'f', arguments: '{}' },
        name: 'Ada',
        refusal: 'No.',
      },
      tool_calls: chatCall.tool_calls,
    },
  },
  {
    type: ['completions', 'ChatCompletionToolMessageParam'],
    request: { messages: [hi, chatCall, { role: 'tool', tool_call_id: 'c', content: 'A' }] },
    at: ['messages', 2],
    values: { content: 'B', role: 'tool', tool_call_id: 'c' },
  },
  {
    type: ['completions', 'ChatCompletionContentPartText'],
    request: { messages: [{ role: 'user', content: [{ type: 'text', text: 'A' }] }] },
    at: ['messages', 0, 'content', 0],
    values: { text: 'B', type: 'text', prompt_cache_breakpoint: marker },
  },
  {
    type: ['completions', 'ChatCompletionContentPartImage'],
    request: { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a/b.png' } }] }] },
    at: ['messages', 0, 'content', 0],
    values: { image_url: { url: 'https://a/b.png', detail: 'high' }, type: 'image_url', prompt_cache_breakpoint: marker },
  },
  {
    type: ['completions', 'ChatCompletionStreamOptions'],
    request: { messages: [hi], stream: true, stream_options: {} },
    at: ['stream_options'],
    values: { include_obfuscation: true, include_usage: true },
  },
  {
    type: ['shared', 'FunctionDefinition'],
    request: { messages: [hi], tools: [{ type: 'function', function: { name: 'f' } }] },
    at: ['tools', 0, 'function'],
    values: { name: 'g', description: 'F.', parameters: schema, strict: true },
  },
  {
    type: ['shared', 'JSONSchema'],
    request: { messages: [hi], response_format: { type: 'json_schema', json_schema: {} } },
    at: ['response_format', 'json_schema'],
    values: { name: 'only a label', description: 'D.', schema, strict: true },
  },
];
