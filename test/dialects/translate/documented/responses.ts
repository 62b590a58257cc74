/** Fields of responses requests, with values that have an effect. */
import type { Place } from '../sdk-members.ts';

const schema = { type: 'object', properties: { city: { type: 'string' } } };
const responsesTool = { type: 'function', name: 'f', parameters: schema };
const marker = { mode: 'explicit' };
const asked = { role: 'user', content: 'hi' };
const functionCall = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' };
const output = { type: 'function_call_output', call_id: 'c', output: 'A' };
const caller = { type: 'program', caller_id: 'x' };

export const responsesPlaces: readonly Place[] = [
  {
    type: ['responses', 'ResponseCreateParamsBase'],
    request: { model: 'standard', input: 'hi', tools: [responsesTool] },
    at: [],
    values: {
      ...{ access_programs: { cyber: 'standard' }, background: true, context_management: [{ type: 'compaction' }], conversation: 'c' },
      ...{ image: { context_compression: 'enabled' }, include: ['message.output_text.logprobs'], input: 'ho', instructions: 'I' },
      ...{ max_output_tokens: 9_000, max_tool_calls: 2, metadata: { a: 'b' }, model: 'standard', moderation: { model: 'm' } },
      ...{
        parallel_tool_calls: false,
        previous_response_id: 'r',
        prompt: { id: 'p' },
        prompt_cache_key: 'k',
        prompt_cache_options: marker,
      },
      ...{ prompt_cache_retention: '24h', reasoning: { effort: 'high' }, safety_identifier: 's', service_tier: 'priority', store: true },
      ...{ stream: true, stream_options: { include_obfuscation: true }, temperature: 0.5, text: { format: { type: 'json_object' } } },
      ...{
        tool_choice: 'required',
        tools: [responsesTool, { type: 'web_search' }],
        top_logprobs: 2,
        top_p: 0.5,
        truncation: 'auto',
        user: 'u',
      },
    },
  },
  {
    type: ['shared', 'Reasoning'],
    request: { input: 'hi', max_output_tokens: 40_000, reasoning: {} },
    at: ['reasoning'],
    values: {
      ...{ context: 'all_turns', effort: 'max', mode: 'pro' },
      ...{ generate_summary: 'the response always has one', summary: 'the response always has one' },
    },
  },
  {
    type: ['responses', 'ResponseTextConfig'],
    request: { input: 'hi', text: {} },
    at: ['text'],
    values: { format: { type: 'json_object' }, verbosity: 'low' },
  },
  {
    type: ['responses', 'FunctionTool'],
    request: { input: 'hi', tools: [{ type: 'function', name: 'f' }] },
    at: ['tools', 0],
    values: {
      ...{ name: 'g', parameters: schema, strict: true, type: 'function', allowed_callers: ['programmatic'], async: true },
      ...{ defer_loading: true, description: 'F.', output_schema: schema },
    },
  },
  {
    type: ['responses', 'CustomTool'],
    request: { input: 'hi', tools: [{ type: 'custom', name: 'f' }] },
    at: ['tools', 0],
    values: {
      ...{ name: 'g', type: 'custom', allowed_callers: ['programmatic'], async: true, defer_loading: true, description: 'F.' },
      format: { type: 'grammar', syntax: 'lark', definition: 'start: "a"' },
    },
  },
  {
    type: ['responses', 'NamespaceTool'],
    request: { input: 'hi', tools: [{ type: 'namespace', name: 'n', tools: [responsesTool] }] },
    at: ['tools', 0],
    values: { description: 'D.', name: 'm', tools: [{ ...responsesTool, name: 'g' }], type: 'namespace' },
  },
  {
    type: ['responses', 'EasyInputMessage'],
    request: { input: [{ role: 'user', content: 'A' }] },
    at: ['input', 0],
    values: { content: 'B', role: 'user', phase: 'commentary', type: 'message' },
  },
  {
    type: ['responses', 'ResponseOutputMessage'],
    request: { input: [asked, { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'A' }] }, asked] },
    at: ['input', 1],
    values: {
      ...{ id: 'm', content: [{ type: 'output_text', text: 'B' }], role: 'assistant', status: 'completed', type: 'message' },
      phase: 'commentary',
    },
  },
  {
    type: ['responses', 'ResponseOutputText'],
    request: { input: [asked, { role: 'assistant', content: [{ type: 'output_text', text: 'A' }] }, asked] },
    at: ['input', 1, 'content', 0],
    values: { annotations: [{ type: 'url_citation' }], text: 'B', type: 'output_text', logprobs: [{ token: 'x' }] },
  },
  {
    type: ['responses', 'ResponseInputText'],
    request: { input: [{ role: 'user', content: [{ type: 'input_text', text: 'A' }] }] },
    at: ['input', 0, 'content', 0],
    values: { text: 'B', type: 'input_text', prompt_cache_breakpoint: marker },
  },
  {
    type: ['responses', 'ResponseInputImage'],
    request: { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'https://a/b.png' }] }] },
    at: ['input', 0, 'content', 0],
    values: { detail: 'high', type: 'input_image', file_id: 'f', image_url: 'https://a/c.png', prompt_cache_breakpoint: marker },
  },
  {
    type: ['responses', 'ResponseInputFile'],
    request: { input: [{ role: 'user', content: [{ type: 'input_file', file_data: 'data:application/pdf;base64,AA' }] }] },
    at: ['input', 0, 'content', 0],
    values: {
      ...{ type: 'input_file', detail: 'high', file_data: 'data:application/pdf;base64,AB', file_id: 'f', file_url: 'https://a/b.pdf' },
      ...{ filename: 'b.pdf', prompt_cache_breakpoint: marker },
    },
  },
  {
    type: ['responses', 'ResponseFunctionToolCall'],
    request: { input: [asked, functionCall, output] },
    at: ['input', 1],
    values: {
      ...{ arguments: '{"a":1}', call_id: 'c', name: 'g', type: 'function_call', id: 'i', async: true, caller, namespace: 'n' },
      status: 'completed',
    },
  },
  {
    type: ['responses', 'FunctionCallOutput'],
    request: { input: [asked, functionCall, output] },
    at: ['input', 2],
    values: {
      ...{ output: 'B', type: 'function_call_output', id: 'i', call_id: 'c', caller, name: 'f', namespace: 'n', status: 'completed' },
    },
  },
  {
    type: ['responses', 'ResponseReasoningItem'],
    request: { input: [asked, { type: 'reasoning' }, { role: 'assistant', content: 'A' }, asked] },
    at: ['input', 1],
    values: {
      ...{ id: 'i', summary: [{ type: 'summary_text', text: 'Hm' }], type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Hm' }] },
      ...{ encrypted_content: 'gAAA', status: 'completed' },
    },
  },
];
