/**
 * No documented member of a request disappears silently. For each of them, a request that has it is passed on, translated, refused because of
 * it, or answered with its name in `x-gateway-dropped` or `x-gateway-adjusted`.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Call, Dialect, PromptRoute } from '../../../src/core/call.ts';
import { noCorrelation } from '../../../src/core/call.ts';
import type { Candidate, ModelTraits } from '../../../src/core/candidate.ts';
import { VendorError } from '../../../src/core/errors.ts';
import type { JsonObject } from '../../../src/core/json/narrow.ts';
import { scanObject } from '../../../src/core/json/spans.ts';
import { adapterFor } from '../../../src/pipeline/call/dialect-adapter.ts';
import type { Provider } from '../../../src/vendors/vendor.ts';
import { type declarations, documentedMembers } from './sdk-members.ts';

function callOf(route: PromptRoute, request: JsonObject): Call {
  const body = Buffer.from(JSON.stringify(request));
  return {
    id: '0193d7a0-0000-7000-8000-000000000000',
    startedAt: 1_763_678_400_500,
    route,
    caller: { keyId: 'k', keyPrefix: 'abcdefgh', quotaKeyId: 'k', projectId: 'p', models: null, expiresAt: null },
    projectSlug: 'acme',
    source: 'acme',
    sourceGiven: false,
    modelAsked: 'standard',
    stream: request.stream === true,
    body,
    spans: scanObject(body),
    maxOutputTokens: null,
    memory: { mode: 'write', explicitWrite: false, subject: null },
    cache: { reads: true, writes: true },
    correlation: noCorrelation,
    deadlineAt: null,
    forwardedHeaders: {},
  };
}

interface Sent {
  readonly body: string;
  readonly named: readonly string[];
}

/** What the vendor gets, or the error of a refusal. */
function send(route: PromptRoute, dialect: Dialect, request: JsonObject, traits: ModelTraits = {}): Sent | VendorError {
  const candidate: Candidate = { id: 'x/m', provider: 'x', model: 'm', dialect, price: null, maxOutputTokens: 64_000, traits };
  const timeouts = { connectTimeoutMs: 1, firstByteTimeoutMs: 1, idleTimeoutMs: 1 };
  const provider: Provider = { name: 'x', dialect, baseUrl: 'http://vendor.test/v1', headers: {}, secrets: [], ...timeouts };
  try {
    const { body, changes } = adapterFor(callOf(route, request), candidate, provider, route === 'responses' ? 'translated' : 'native');
    return { body: body.toString(), named: [...(changes?.dropped ?? []), ...(changes?.adjusted ?? [])] };
  } catch (error) {
    if (error instanceof VendorError) return error;
    throw error;
  }
}

/** What became of the member of an object in the request. `without` is the same request without it. */
function fateOf(member: string, sent: Sent | VendorError, without: Sent | VendorError): string {
  const isNamed = (path: string): boolean => path.split('.').includes(member);
  if (sent instanceof VendorError) {
    if (isNamed(sent.report.param ?? '') || sent.message.includes(member)) return 'refused';
    return `refused for another reason: ${sent.message}`;
  }
  if (sent.named.some(isNamed)) return 'named';
  return without instanceof VendorError || sent.body !== without.body ? 'translated' : 'silently dropped';
}

const schema = { type: 'object', properties: { city: { type: 'string' } } };
const chatTool = { type: 'function', function: { name: 'f', parameters: schema } };
const messagesTool = { name: 'f', input_schema: schema };
const responsesTool = { type: 'function', name: 'f', parameters: schema };
const hi = { role: 'user', content: 'hi' };
const chatCall = {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
};
const marker = { mode: 'explicit' };
const ephemeral = { type: 'ephemeral' };
const caller = { type: 'program', caller_id: 'x' };

/** An interface of the SDK's types, the request that holds such an object, and for each member a value that asks for something. */
interface Place {
  readonly type: readonly [file: keyof typeof declarations, name: string];
  readonly request: JsonObject;
  /** The object in the request. */
  readonly at: (request: any) => Record<string, unknown>;
  readonly values: JsonObject;
  /** Path of the object, whose members are not named one by one when all of it is dropped. */
  readonly within?: string;
}

const root = (request: Record<string, unknown>): Record<string, unknown> => request;

const chatPlaces: readonly Place[] = [
  {
    type: ['completions', 'ChatCompletionCreateParamsBase'],
    request: { model: 'standard', messages: [hi], tools: [chatTool] },
    at: root,
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
    at: ({ messages }: any) => messages[1],
    values: { content: 'B', role: role.toLowerCase(), name: 'Ada' },
  })),
  {
    type: ['completions', 'ChatCompletionAssistantMessageParam'],
    request: { messages: [hi, { role: 'assistant', content: 'A' }, hi] },
    at: ({ messages }) => messages[1],
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
    at: ({ messages }) => messages[2],
    values: { content: 'B', role: 'tool', tool_call_id: 'c' },
  },
  {
    type: ['completions', 'ChatCompletionContentPartText'],
    request: { messages: [{ role: 'user', content: [{ type: 'text', text: 'A' }] }] },
    at: ({ messages }) => messages[0].content[0],
    values: { text: 'B', type: 'text', prompt_cache_breakpoint: marker },
  },
  {
    type: ['completions', 'ChatCompletionContentPartImage'],
    request: { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a/b.png' } }] }] },
    at: ({ messages }) => messages[0].content[0],
    values: { image_url: { url: 'https://a/b.png', detail: 'high' }, type: 'image_url', prompt_cache_breakpoint: marker },
  },
  {
    type: ['completions', 'ChatCompletionStreamOptions'],
    request: { messages: [hi], stream: true, stream_options: {} },
    at: ({ stream_options: options }) => options,
    values: { include_obfuscation: true, include_usage: true },
  },
  {
    type: ['shared', 'FunctionDefinition'],
    request: { messages: [hi], tools: [{ type: 'function', function: { name: 'f' } }] },
    at: ({ tools }) => tools[0].function,
    values: { name: 'g', description: 'F.', parameters: schema, strict: true },
  },
  {
    type: ['shared', 'JSONSchema'],
    request: { messages: [hi], response_format: { type: 'json_schema', json_schema: {} } },
    at: ({ response_format: format }) => format.json_schema,
    values: { name: 'only a label', description: 'D.', schema, strict: true },
  },
];

const messagesBase = { model: 'standard', max_tokens: 9_000, messages: [hi] };
const toolUse = { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: {} }] };
const result = { type: 'tool_result', tool_use_id: 't', content: 'A' };

const messagesPlaces: readonly Place[] = [
  {
    type: ['messages', 'MessageCreateParamsBase'],
    request: { ...messagesBase, tools: [messagesTool] },
    at: root,
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
    at: ({ tools }) => tools[0],
    values: {
      ...{ input_schema: schema, name: 'g', allowed_callers: ['code_execution_20260120'], cache_control: ephemeral, defer_loading: true },
      ...{ description: 'F.', eager_input_streaming: true, input_examples: [{ city: 'Oslo' }], strict: true, type: 'custom' },
    },
  },
  {
    type: ['messages', 'BetaToolChoiceTool'],
    request: { ...messagesBase, tools: [messagesTool], tool_choice: { type: 'tool', name: 'f' } },
    at: ({ tool_choice: choice }) => choice,
    values: { name: 'g', type: 'tool', disable_parallel_tool_use: true },
  },
  {
    type: ['messages', 'BetaThinkingConfigEnabled'],
    request: { ...messagesBase, thinking: { type: 'enabled' } },
    at: ({ thinking }) => thinking,
    within: 'thinking',
    values: { budget_tokens: 4_096, type: 'enabled', block_binding: 'x', display: 'omitted' },
  },
  {
    type: ['messages', 'BetaThinkingConfigDisabled'],
    request: { ...messagesBase, thinking: {} },
    at: ({ thinking }) => thinking,
    values: { type: 'disabled' },
  },
  {
    type: ['messages', 'BetaOutputConfig'],
    request: { ...messagesBase, output_config: {} },
    at: ({ output_config: config }) => config,
    values: { effort: 'max', format: { type: 'json_schema', schema }, task_budget: { type: 'tokens', total: 9 } },
  },
  {
    type: ['messages', 'BetaMetadata'],
    request: { ...messagesBase, metadata: {} },
    at: ({ metadata }) => metadata,
    values: { user_id: 'u' },
  },
  {
    type: ['messages', 'BetaSystemMessageParam'],
    request: { ...messagesBase, messages: [hi, { role: 'system', content: 'A' }] },
    at: ({ messages }) => messages[1],
    values: { role: 'system', clear_at: 'next_user_message', content: 'B', output_config: { effort: 'low' } },
  },
  {
    type: ['messages', 'BetaTextBlockParam'],
    request: { ...messagesBase, messages: [{ role: 'user', content: [{ type: 'text', text: 'A' }] }] },
    at: ({ messages }) => messages[0].content[0],
    values: { text: 'B', type: 'text', cache_control: ephemeral, citations: [{ type: 'x' }] },
  },
  {
    type: ['messages', 'BetaImageBlockParam'],
    request: {
      ...messagesBase,
      messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'https://a/b.png' } }] }],
    },
    at: ({ messages }) => messages[0].content[0],
    values: { source: { type: 'url', url: 'https://a/c.png' }, type: 'image', cache_control: ephemeral, transformations: { x: 1 } },
  },
  {
    type: ['messages', 'BetaRequestDocumentBlock'],
    request: {
      ...messagesBase,
      messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'A' } }] }],
    },
    at: ({ messages }) => messages[0].content[0],
    values: {
      ...{ source: { type: 'text', media_type: 'text/plain', data: 'B' }, type: 'document', cache_control: ephemeral },
      ...{ citations: { enabled: true }, context: 'C', title: 'T' },
    },
  },
  {
    type: ['messages', 'BetaToolUseBlockParam'],
    request: { ...messagesBase, messages: [hi, toolUse, { role: 'user', content: [result] }] },
    at: ({ messages }) => messages[1].content[0],
    values: { id: 't', input: { a: 1 }, name: 'g', type: 'tool_use', cache_control: ephemeral, caller, toolset_name: 's' },
  },
  {
    type: ['messages', 'BetaToolResultBlockParam'],
    request: { ...messagesBase, messages: [hi, toolUse, { role: 'user', content: [result] }] },
    at: ({ messages }) => messages[2].content[0],
    values: { tool_use_id: 't', type: 'tool_result', cache_control: ephemeral, content: 'B', is_error: true, toolset_name: 's' },
  },
  {
    type: ['messages', 'BetaThinkingBlockParam'],
    request: { ...messagesBase, messages: [hi, { role: 'assistant', content: [{ type: 'thinking' }, { type: 'text', text: 'A' }] }, hi] },
    at: ({ messages }) => messages[1].content[0],
    values: { signature: 'c2ln', thinking: 'Hm', type: 'thinking' },
  },
  {
    type: ['messages', 'BetaRedactedThinkingBlockParam'],
    request: {
      ...messagesBase,
      messages: [hi, { role: 'assistant', content: [{ type: 'redacted_thinking' }, { type: 'text', text: 'A' }] }, hi],
    },
    at: ({ messages }) => messages[1].content[0],
    values: { data: 'ZGF0YQ==', type: 'redacted_thinking' },
  },
];

const functionCall = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' };
const output = { type: 'function_call_output', call_id: 'c', output: 'A' };
const asked = { role: 'user', content: 'hi' };

const responsesPlaces: readonly Place[] = [
  {
    type: ['responses', 'ResponseCreateParamsBase'],
    request: { model: 'standard', input: 'hi', tools: [responsesTool] },
    at: root,
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
    at: ({ reasoning }) => reasoning,
    values: {
      ...{ context: 'all_turns', effort: 'max', mode: 'pro' },
      ...{ generate_summary: 'the response always has one', summary: 'the response always has one' },
    },
  },
  {
    type: ['responses', 'ResponseTextConfig'],
    request: { input: 'hi', text: {} },
    at: ({ text }) => text,
    values: { format: { type: 'json_object' }, verbosity: 'low' },
  },
  {
    type: ['responses', 'FunctionTool'],
    request: { input: 'hi', tools: [{ type: 'function', name: 'f' }] },
    at: ({ tools }) => tools[0],
    values: {
      ...{ name: 'g', parameters: schema, strict: true, type: 'function', allowed_callers: ['programmatic'], async: true },
      ...{ defer_loading: true, description: 'F.', output_schema: schema },
    },
  },
  {
    type: ['responses', 'CustomTool'],
    request: { input: 'hi', tools: [{ type: 'custom', name: 'f' }] },
    at: ({ tools }) => tools[0],
    values: {
      ...{ name: 'g', type: 'custom', allowed_callers: ['programmatic'], async: true, defer_loading: true, description: 'F.' },
      format: { type: 'grammar', syntax: 'lark', definition: 'start: "a"' },
    },
  },
  {
    type: ['responses', 'NamespaceTool'],
    request: { input: 'hi', tools: [{ type: 'namespace', name: 'n', tools: [responsesTool] }] },
    at: ({ tools }) => tools[0],
    values: { description: 'D.', name: 'm', tools: [{ ...responsesTool, name: 'g' }], type: 'namespace' },
  },
  {
    type: ['responses', 'EasyInputMessage'],
    request: { input: [{ role: 'user', content: 'A' }] },
    at: ({ input }) => input[0],
    values: { content: 'B', role: 'user', phase: 'commentary', type: 'message' },
  },
  {
    type: ['responses', 'ResponseOutputMessage'],
    request: { input: [asked, { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'A' }] }, asked] },
    at: ({ input }) => input[1],
    values: {
      ...{ id: 'm', content: [{ type: 'output_text', text: 'B' }], role: 'assistant', status: 'completed', type: 'message' },
      phase: 'commentary',
    },
  },
  {
    type: ['responses', 'ResponseOutputText'],
    request: { input: [asked, { role: 'assistant', content: [{ type: 'output_text', text: 'A' }] }, asked] },
    at: ({ input }) => input[1].content[0],
    values: { annotations: [{ type: 'url_citation' }], text: 'B', type: 'output_text', logprobs: [{ token: 'x' }] },
  },
  {
    type: ['responses', 'ResponseInputText'],
    request: { input: [{ role: 'user', content: [{ type: 'input_text', text: 'A' }] }] },
    at: ({ input }) => input[0].content[0],
    values: { text: 'B', type: 'input_text', prompt_cache_breakpoint: marker },
  },
  {
    type: ['responses', 'ResponseInputImage'],
    request: { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'https://a/b.png' }] }] },
    at: ({ input }) => input[0].content[0],
    values: { detail: 'high', type: 'input_image', file_id: 'f', image_url: 'https://a/c.png', prompt_cache_breakpoint: marker },
  },
  {
    type: ['responses', 'ResponseInputFile'],
    request: { input: [{ role: 'user', content: [{ type: 'input_file', file_data: 'data:application/pdf;base64,AA' }] }] },
    at: ({ input }) => input[0].content[0],
    values: {
      ...{ type: 'input_file', detail: 'high', file_data: 'data:application/pdf;base64,AB', file_id: 'f', file_url: 'https://a/b.pdf' },
      ...{ filename: 'b.pdf', prompt_cache_breakpoint: marker },
    },
  },
  {
    type: ['responses', 'ResponseFunctionToolCall'],
    request: { input: [asked, functionCall, output] },
    at: ({ input }) => input[1],
    values: {
      ...{ arguments: '{"a":1}', call_id: 'c', name: 'g', type: 'function_call', id: 'i', async: true, caller, namespace: 'n' },
      status: 'completed',
    },
  },
  {
    type: ['responses', 'FunctionCallOutput'],
    request: { input: [asked, functionCall, output] },
    at: ({ input }) => input[2],
    values: {
      ...{ output: 'B', type: 'function_call_output', id: 'i', call_id: 'c', caller, name: 'f', namespace: 'n', status: 'completed' },
    },
  },
  {
    type: ['responses', 'ResponseReasoningItem'],
    request: { input: [asked, { type: 'reasoning' }, { role: 'assistant', content: 'A' }, asked] },
    at: ({ input }) => input[1],
    values: {
      ...{ id: 'i', summary: [{ type: 'summary_text', text: 'Hm' }], type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Hm' }] },
      ...{ encrypted_content: 'gAAA', status: 'completed' },
    },
  },
];

/** Members whose value says what the object is, or that the gateway itself acts on whatever the vendor is. */
const structural: ReadonlySet<string> = new Set(['type', 'role', 'model', 'stream', 'call_id', 'tool_call_id', 'tool_use_id']);
/** Members with an effect on the response rather than on the vendor's request, and names that are only labels. */
const honouredElsewhere: readonly string[] = [
  ...[
    'ChatCompletionStreamOptions.include_usage',
    'Reasoning.summary',
    'Reasoning.generate_summary',
    'JSONSchema.name',
    'JSONSchema.strict',
  ],
  'BetaToolUseBlockParam.id',
];

const ways: readonly { route: PromptRoute; vendor: Dialect; places: readonly Place[]; traits?: ModelTraits }[] = [
  { route: 'chat', vendor: 'messages', places: chatPlaces },
  { route: 'chat', vendor: 'messages', places: chatPlaces, traits: { supportsSchema: true, thinking: 'adaptive' } },
  { route: 'chat', vendor: 'messages', places: chatPlaces, traits: { thinking: 'none' } },
  { route: 'messages', vendor: 'chat', places: messagesPlaces },
  { route: 'messages', vendor: 'chat', places: messagesPlaces, traits: { reasons: false, takesReasoning: 'text' } },
  { route: 'messages', vendor: 'chat', places: messagesPlaces, traits: { reasons: true, takesReasoning: 'details' } },
  { route: 'responses', vendor: 'chat', places: responsesPlaces },
  { route: 'responses', vendor: 'chat', places: responsesPlaces, traits: { reasons: false, takesReasoning: 'details' } },
  { route: 'responses', vendor: 'messages', places: responsesPlaces },
];

/** A call of one tool at most is also what a request for JSON, or for no tool at all, leads to. */
const isImplied = (member: string, { tool_choice: choice, response_format: format, text }: JsonObject): boolean =>
  member === 'parallel_tool_calls' && (choice === 'none' || (format ?? text) !== undefined);

/** The request with the member, and without it. */
function requestsOf({ request, at, values }: Place, member: string): [JsonObject, JsonObject] {
  const having = structuredClone(request);
  at(having)[member] = values[member];
  const lacking = structuredClone(having);
  delete at(lacking)[member];
  return [having, lacking];
}

describe.each(ways)('a request of $route for a vendor of $vendor with $traits', ({ route, vendor, places, traits }) => {
  test.each(places.map((place) => ({ name: place.type[1], place })))('loses no member of $name silently', ({ name, place }) => {
    const documented = documentedMembers(...place.type);
    // A new member of the SDK needs a value here and, unless it may be dropped, a rule.
    expect(Object.keys(place.values)).toEqual(expect.arrayContaining(documented));
    const fates = Object.keys(place.values)
      .filter((member) => !structural.has(member) && !honouredElsewhere.includes(`${name}.${member}`))
      .map((member) => {
        const [having, lacking] = requestsOf(place, member);
        const sent = send(route, vendor, having, traits);
        const isWholeNamed = place.within !== undefined && !(sent instanceof VendorError) && sent.named.includes(place.within);
        return [member, isWholeNamed ? 'named' : fateOf(member, sent, send(route, vendor, lacking, traits))];
      });
    expect(fates.filter(([, fate]) => fate !== 'translated' && fate !== 'named' && fate !== 'refused')).toEqual([]);
  });

  test('loses no member silently where members occur together', () => {
    const [{ request, values } = places[0] as Place] = places;
    const free = Object.keys(values).filter((member) => {
      const [having] = requestsOf(places[0] as Place, member);
      return !structural.has(member) && !(send(route, vendor, having, traits) instanceof VendorError);
    });
    fc.assert(
      fc.property(fc.subarray(free, { minLength: 2 }), (members) => {
        const having = { ...request, ...Object.fromEntries(members.map((member) => [member, values[member]])) };
        const sent = send(route, vendor, having, traits);
        for (const member of members.filter((name) => !isImplied(name, having))) {
          const { [member]: _omitted, ...lacking } = having;
          expect([member, fateOf(member, sent, send(route, vendor, lacking, traits))]).not.toEqual([member, 'silently dropped']);
        }
      }),
      { numRuns: 100 },
    );
  });
});

test.each<[PromptRoute, Dialect, readonly Place[]]>([
  ['chat', 'chat', chatPlaces],
  ['messages', 'messages', messagesPlaces],
])('a request of %s passes all its members to a vendor of %s', (route, dialect, places) => {
  for (const { request, at, values } of places) {
    const having = structuredClone(request);
    Object.assign(at(having), values, { stream: undefined });
    const sent = send(route, dialect, { model: 'standard', ...having });
    expect(sent instanceof VendorError ? sent : JSON.parse(sent.body)).toEqual(JSON.parse(JSON.stringify({ ...having, model: 'm' })));
  }
});

test('names members that no vendor documents', () => {
  expect(send('chat', 'messages', { messages: [hi], min_p: 0.1, chat_template_kwargs: {} })).toMatchObject({
    named: ['min_p', 'chat_template_kwargs'],
  });
});
