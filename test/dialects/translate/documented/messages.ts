/** Fields of messages requests, with values that have an effect. */
import type { Place } from '../sdk-members.ts';

const hi = { role: 'user', content: 'hi' };
const messagesBase = { model: 'standard', max_tokens: 9_000, messages: [hi] };
const schema = { type: 'object', properties: { city: { type: 'string' } } };
const messagesTool = { name: 'f', input_schema: schema };
const ephemeral = { type: 'ephemeral' };
const toolUse = { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: {} }] };
const result = { type: 'tool_result', tool_use_id: 't', content: 'A' };
const caller = { type: 'program', caller_id: 'x' };

export const messagesPlaces: readonly Place[] = [
  {
    type: ['messages', 'MessageCreateParamsBase'],
    request: { ...messagesBase, tools: [messagesTool] },
    at: [],
    values: {
      ...{ max_tokens: 8_000, messages: [hi, hi], model: 'standard', billing_policy: { type: 'billing_policy', bill_to: 'user_profile' } },
      ...{ cache_control: ephemeral, compaction: { type: 'summarize' }, container: 'c', context_management: { edits: [{ type: 'x' }] } },
      ...{ diagnostics: { previous_message_id: 'm' }, fallback_credit_token: 't', fallbacks: [{ model: 'm' }], inference_geo: 'us' },
      ...{ mcp_servers: [{ type: 'url', url: 'https://x', name: 'x' }], metadata: { user_id: 'u' }, output_config: { effort: 'high' } },
      ...{
        output_format: { type: 'json_schema', schema },
        service_tier: 'standard_only',
        speed: 'fast',
        stop_sequences: ['END'],
        stream: true,
      },
      ...{ system: 'S', temperature: 0.5, thinking: { type: 'enabled', budget_tokens: 4_096 } },
      ...{ thread: { type: 'continue', previous_message_id: 'm' }, tool_choice: { type: 'any' }, top_k: 5, top_p: 0.5 },
      tools: [messagesTool, { ...messagesTool, name: 'g' }],
    },
  },
  {
    type: ['messages', 'BetaTool'],
    request: { ...messagesBase, tools: [{ name: 'f' }] },
    at: ['tools', 0],
    values: {
      ...{ input_schema: schema, name: 'g', allowed_callers: ['code_execution_20260120'], cache_control: ephemeral, defer_loading: true },
      ...{ description: 'F.', eager_input_streaming: true, input_examples: [{ city: 'Oslo' }], strict: true, type: 'custom' },
    },
  },
  {
    type: ['messages', 'BetaToolChoiceTool'],
    request: { ...messagesBase, tools: [messagesTool], tool_choice: { type: 'tool', name: 'f' } },
    at: ['tool_choice'],
    values: { name: 'g', type: 'tool', disable_parallel_tool_use: true },
  },
  {
    type: ['messages', 'BetaThinkingConfigEnabled'],
    request: { ...messagesBase, thinking: { type: 'enabled' } },
    at: ['thinking'],
    within: 'thinking',
    values: { budget_tokens: 4_096, type: 'enabled', block_binding: 'x', display: 'omitted' },
  },
  {
    type: ['messages', 'BetaThinkingConfigDisabled'],
    request: { ...messagesBase, thinking: {} },
    at: ['thinking'],
    values: { type: 'disabled' },
  },
  {
    type: ['messages', 'BetaOutputConfig'],
    request: { ...messagesBase, output_config: {} },
    at: ['output_config'],
    values: { effort: 'max', format: { type: 'json_schema', schema }, task_budget: { type: 'tokens', total: 9 } },
  },
  {
    type: ['messages', 'BetaMetadata'],
    request: { ...messagesBase, metadata: {} },
    at: ['metadata'],
    values: { user_id: 'u' },
  },
  {
    type: ['messages', 'BetaSystemMessageParam'],
    request: { ...messagesBase, messages: [hi, { role: 'system', content: 'A' }] },
    at: ['messages', 1],
    values: { role: 'system', clear_at: 'next_user_message', content: 'B', output_config: { effort: 'low' } },
  },
  {
    type: ['messages', 'BetaTextBlockParam'],
    request: { ...messagesBase, messages: [{ role: 'user', content: [{ type: 'text', text: 'A' }] }] },
    at: ['messages', 0, 'content', 0],
    values: { text: 'B', type: 'text', cache_control: ephemeral, citations: [{ type: 'x' }] },
  },
  {
    type: ['messages', 'BetaImageBlockParam'],
    request: {
      ...messagesBase,
      messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'https://a/b.png' } }] }],
    },
    at: ['messages', 0, 'content', 0],
    values: { source: { type: 'url', url: 'https://a/c.png' }, type: 'image', cache_control: ephemeral, transformations: { x: 1 } },
  },
  {
    type: ['messages', 'BetaRequestDocumentBlock'],
    request: {
      ...messagesBase,
      messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'A' } }] }],
    },
    at: ['messages', 0, 'content', 0],
    values: {
      ...{ source: { type: 'text', media_type: 'text/plain', data: 'B' }, type: 'document', cache_control: ephemeral },
      ...{ citations: { enabled: true }, context: 'C', title: 'T' },
    },
  },
  {
    type: ['messages', 'BetaToolUseBlockParam'],
    request: { ...messagesBase, messages: [hi, toolUse, { role: 'user', content: [result] }] },
    at: ['messages', 1, 'content', 0],
    values: { id: 't', input: { a: 1 }, name: 'g', type: 'tool_use', cache_control: ephemeral, caller, toolset_name: 's' },
  },
  {
    type: ['messages', 'BetaToolResultBlockParam'],
    request: { ...messagesBase, messages: [hi, toolUse, { role: 'user', content: [result] }] },
    at: ['messages', 2, 'content', 0],
    values: { tool_use_id: 't', type: 'tool_result', cache_control: ephemeral, content: 'B', is_error: true, toolset_name: 's' },
  },
  {
    type: ['messages', 'BetaThinkingBlockParam'],
    request: { ...messagesBase, messages: [hi, { role: 'assistant', content: [{ type: 'thinking' }, { type: 'text', text: 'A' }] }, hi] },
    at: ['messages', 1, 'content', 0],
    values: { signature: 'c2ln', thinking: 'Hm', type: 'thinking' },
  },
  {
    type: ['messages', 'BetaRedactedThinkingBlockParam'],
    request: {
      ...messagesBase,
      messages: [hi, { role: 'assistant', content: [{ type: 'redacted_thinking' }, { type: 'text', text: 'A' }] }, hi],
    },
    at: ['messages', 1, 'content', 0],
    values: { data: 'ZGF0YQ==', type: 'redacted_thinking' },
  },
];
