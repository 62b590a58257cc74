/**
 * Defines what happens to each documented field of a request if the vendor uses the other dialect.
 *
 * If the other dialect can't express a field that changes the meaning of the request, we refuse the request, and the
 * plan continues with the next model. Fields that don't change its meaning are dropped, and so are unlisted ones
 * (docs/architecture/translation.md#members).
 */
import { asArray, type JsonObject } from '../../core/json/narrow.ts';
import { asLosslessObject, asNonEmptyString, asNumber, isLosslessObject } from '../json/lossless-json.ts';
import { unsealReasoning } from '../json/sealed-reasoning.ts';
import { readReasoning, readThinkingBlock, signedParts } from './chat-reasoning.ts';
import { isHighestEffort } from './reasoning.ts';
import { createRuleBuilders, type MemberRule, type MemberRules } from './request-changes.ts';
import type { ReasoningForm } from './responses/items.ts';
import type { ChatTarget, MessagesTarget } from './targets.ts';

const isSet = (value: unknown): boolean => value !== undefined && value !== null;
const isNot =
  (...defaults: readonly unknown[]) =>
  (value: unknown): boolean =>
    !defaults.includes(value);
const isNotNumber =
  (number: number) =>
  (value: unknown): boolean =>
    asNumber(value) !== number;
const hasMembers = (value: unknown): boolean => !isLosslessObject(value) || Object.keys(value).length > 0;
const hasElements = (value: unknown): boolean => !Array.isArray(value) || value.length > 0;
const hasTools = (_value: unknown, { request }: { request: JsonObject }): boolean => asArray(request.tools).length > 0;
const isThinkingOff = ({ thinking }: JsonObject): boolean => asLosslessObject(thinking).type === 'disabled';
const isForced = ({ tool_choice: choice }: JsonObject): boolean => choice === 'required' || isLosslessObject(choice);

/** The rules for chat requests that go to messages vendors. */
export const chatToMessages: MemberRules<MessagesTarget> = (() => {
  const { translated, dropped, adjusted, refused, object, list, union } = createRuleBuilders<MessagesTarget>();
  const unsupported = (name: string): string => `${name}: is not supported by vendors that use the messages dialect`;
  const textPart = { type: translated, text: translated, cache_control: translated };
  const content = list(
    union({
      text: textPart,
      refusal: { type: translated, refusal: translated },
      thinking: { type: translated, thinking: dropped() },
      image_url: {
        ...{ type: translated, cache_control: translated },
        // Some callers send just the URL instead of an object.
        image_url: dropped((image) => isNot('auto', undefined, null)(asLosslessObject(image).detail)),
      },
      file: {
        ...{ type: translated, cache_control: translated },
        file: object({ file_data: translated, filename: translated, file_id: dropped((_id, { parent }) => isSet(parent.file_data)) }),
      },
    }),
  );
  // Vendors reject reasoning that they haven't signed.
  const reasoning = dropped((_value, { parent }) => signedParts(readReasoning(parent)).length === 0);
  const schemaRule = dropped((strict, { target }) => strict === true && target.supportsSchema !== true);
  return {
    ...{ model: translated, max_completion_tokens: translated, stream: translated },
    max_tokens: dropped((_value, { parent }) => isSet(parent.max_completion_tokens)),
    messages: list(
      object({
        ...{ role: translated, content, refusal: translated, tool_call_id: translated },
        // rejected by the translators
        ...{ audio: translated, function_call: translated },
        tool_calls: list(object({ id: translated, type: translated, function: object({ name: translated, arguments: translated }) })),
        ...{ reasoning_content: reasoning, reasoning, reasoning_details: reasoning, thinking_blocks: reasoning },
        annotations: dropped(hasElements),
      }),
    ),
    stream_options: object({ include_usage: translated, include_obfuscation: dropped(isNot(false)) }),
    temperature: adjusted((value) => (asNumber(value) ?? 0) > 1),
    ...{ top_p: translated, top_k: translated, stop: translated },
    tools: list(
      object({
        ...{ type: translated, cache_control: translated },
        function: object({ name: translated, description: translated, parameters: translated, strict: schemaRule }),
      }),
    ),
    tool_choice: dropped((choice, context) => (choice === 'auto' || choice === 'none') && !hasTools(choice, context)),
    parallel_tool_calls: dropped((value, context) => value === false && !hasTools(value, context)),
    response_format: dropped(
      (format, { parent }) => isForced(parent) && asLosslessObject(format).type !== 'text',
      object({
        type: translated,
        json_schema: object({ name: translated, description: translated, schema: translated, strict: schemaRule }),
      }),
    ),
    reasoning_effort: dropped((_effort, { request }) => asksForBudget(request) || isThinkingOff(request)),
    reasoning: object({
      effort: dropped((_effort, { request }) => isSet(request.reasoning_effort) || asksForBudget(request)),
      ...{ max_tokens: translated, enabled: translated },
    }),
    thinking: object({ type: translated, budget_tokens: translated }),
    user: translated,
    safety_identifier: dropped((_id, { parent }) => asNonEmptyString(parent.user) !== null),
    n: refused('n: must be 1 for vendors that use the messages dialect', isNotNumber(1)),
    modalities: refused('modalities: vendors that use the messages dialect only support text output', (value) =>
      asArray(value).some((modality) => modality !== 'text'),
    ),
    web_search_options: refused(unsupported('web_search_options')),
    functions: refused(`${unsupported('functions')}; use tools`, hasElements),
    logprobs: refused(unsupported('logprobs'), isNot(false)),
    top_logprobs: refused(unsupported('top_logprobs'), isNotNumber(0)),
    logit_bias: refused(unsupported('logit_bias'), hasMembers),
    moderation: refused(unsupported('moderation')),
    mcp_servers: refused(unsupported('mcp_servers'), hasElements),
    container: refused(unsupported('container')),
    function_call: dropped(),
    audio: dropped(),
    prediction: dropped(),
    seed: dropped(),
    frequency_penalty: dropped(isNotNumber(0)),
    presence_penalty: dropped(isNotNumber(0)),
    metadata: dropped(hasMembers),
    store: dropped(isNot(false)),
    service_tier: dropped(isNot('auto', 'default')),
    verbosity: dropped(),
    ...{ prompt_cache_key: dropped(), prompt_cache_options: dropped(), prompt_cache_retention: dropped() },
  };
})();

/** Checks whether a chat request sets a number of tokens for reasoning, which takes precedence over an effort. */
function asksForBudget({ thinking, reasoning }: JsonObject): boolean {
  return isSet(asLosslessObject(thinking).budget_tokens) || isSet(asLosslessObject(reasoning).max_tokens);
}

/** The rules for messages requests that go to chat vendors. */
export const messagesToChat: MemberRules<ChatTarget> = (() => {
  const { translated, dropped, adjusted, refused, object, list, union } = createRuleBuilders<ChatTarget>();
  const unsupported = (name: string): string => `${name}: is not supported by vendors that use the chat dialect`;
  const noReasoning = (_value: unknown, { target }: { target: ChatTarget }): boolean => target.reasons === false;
  const block = { type: translated, cache_control: dropped() };
  const text = { ...block, text: translated, citations: dropped(hasElements) };
  const image = { ...block, source: translated, transformations: dropped() };
  const documentOf = (source: MemberRule<ChatTarget>) => ({
    ...{ ...block, source, title: translated, context: translated },
    citations: refused(
      'messages: document citations are not supported by vendors that use the chat dialect',
      (value) => asLosslessObject(value).enabled === true,
    ),
  });
  const innerContent = list(union({ text, image, document: documentOf(translated) }));
  const document = documentOf(object({ type: translated, media_type: translated, data: translated, content: innerContent }));
  const toolNames = { tool_use_id: translated, toolset_name: dropped() };
  const content = list(
    union({
      ...{ text, image, document },
      tool_use: { ...block, id: translated, name: translated, input: translated, caller: dropped(), toolset_name: dropped() },
      tool_result: { ...block, ...toolNames, is_error: translated, content: list(union({ text, image, document })) },
      thinking: {
        type: translated,
        thinking: dropped((_value, { target }) => (target.takesReasoning ?? 'none') === 'none'),
        signature: dropped((value, { target }) => value !== '' && target.takesReasoning !== 'details'),
      },
      redacted_thinking: { type: translated, data: dropped((_value, { target }) => target.takesReasoning !== 'details') },
    }),
  );
  return {
    ...{ model: translated, max_tokens: translated, stream: translated, temperature: translated, top_p: translated },
    messages: list(object({ role: translated, content })),
    system: list(union({ text })),
    stop_sequences: translated,
    tools: list(
      union(
        {
          custom: {
            ...{ type: translated, name: translated, description: translated, input_schema: translated, strict: translated },
            ...{ cache_control: dropped(), eager_input_streaming: dropped(isNot(false)), input_examples: dropped(hasElements) },
            defer_loading: dropped(isNot(false)),
            allowed_callers: dropped((value) => asArray(value).some((caller) => caller !== 'direct')),
          },
        },
        'custom',
      ),
    ),
    tool_choice: object({
      ...{ type: translated, name: translated },
      disable_parallel_tool_use: dropped((value, context) => value === true && !hasTools(value, context)),
    }),
    // The chat model alone determines whether it reasons, so `thinking` can't turn reasoning on or off.
    thinking: dropped(
      (_thinking, { request, target }) => (isThinkingOff(request) ? target.reasons !== false : target.reasons === false),
      object({
        type: translated,
        budget_tokens: dropped((_budget, { request }) => isSet(asLosslessObject(request.output_config).effort)),
        ...{ display: dropped(isNot('summarized')), block_binding: dropped() },
      }),
    ),
    output_config: object({
      effort: dropped((effort, context) => noReasoning(effort, context) || isThinkingOff(context.request), adjusted(isHighestEffort)),
      format: translated,
      task_budget: dropped(),
    }),
    output_format: dropped((_format, { parent }) => isSet(asLosslessObject(parent.output_config).format)),
    metadata: object({ user_id: translated }),
    thread: refused(
      "thread: this model's vendor does not store threads; send the whole conversation",
      (thread) => asLosslessObject(thread).type !== 'create',
      dropped(),
      { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
    ),
    mcp_servers: refused(unsupported('mcp_servers'), hasElements),
    container: refused(unsupported('container')),
    compaction: refused(unsupported('compaction')),
    inference_geo: refused(unsupported('inference_geo')),
    billing_policy: refused(unsupported('billing_policy'), (policy) => asLosslessObject(policy).bill_to !== 'self'),
    context_management: dropped((value) => hasElements(asLosslessObject(value).edits ?? [])),
    top_k: dropped(),
    service_tier: dropped(isNot('auto')),
    speed: dropped(isNot('standard')),
    ...{ cache_control: dropped(), diagnostics: dropped(), fallbacks: dropped(), fallback_credit_token: dropped() },
  };
})();

/**
 * The rules for responses requests that go to vendors without this route. If the vendor uses the messages dialect, the
 * rules for chat requests are applied afterwards.
 */
export const responsesToChat: MemberRules<ReasoningForm> = (() => {
  const { translated, dropped, refused, object, list, union } = createRuleBuilders<ReasoningForm>();
  const missing = (name: string): string => `${name}: is not supported by this model's vendor`;
  const stored = (name: string, what: string): string => `${name}: this model's vendor does not store ${what}`;
  const responses = (name: string): string => `${stored(name, 'responses')}; send the whole conversation as input`;
  const part = { type: translated };
  const storedFile = dropped((_file, { parent }) => isSet(parent.file_data));
  const content = list(
    union({
      input_text: { ...part, text: translated },
      output_text: { ...part, text: translated, annotations: dropped(hasElements), logprobs: dropped(hasElements) },
      text: { ...part, text: translated },
      refusal: { ...part, refusal: translated },
      input_image: {
        ...{ ...part, image_url: translated, file_id: dropped((_id, { parent }) => isSet(parent.image_url)) },
        detail: dropped((detail, { target }) => target === 'messages' && detail !== 'auto'),
      },
      input_file: { ...part, filename: translated, file_data: translated, file_id: storedFile, file_url: storedFile },
      input_audio: { ...part, input_audio: translated },
    }),
  );
  const call = { ...part, call_id: translated, name: translated, namespace: translated };
  const result = { ...part, call_id: translated, output: content };
  const tool = { ...part, name: translated, description: translated };
  const customTool = { ...tool, format: translated };
  const functionTool = { ...tool, parameters: translated, strict: translated, defer_loading: dropped(isNot(false)) };
  // If the gateway itself sealed the reasoning, nothing is lost, because the seal also contains the text of the
  // summary.
  const isReasoningLost = (_value: unknown, { parent, target }: { parent: JsonObject; target: ReasoningForm }): boolean => {
    const reasoning = unsealReasoning(parent.encrypted_content);
    if (reasoning === null || target === 'none') return true;
    return target === 'messages' && signedParts([...readThinkingBlock(reasoning), ...readReasoning(reasoning)]).length === 0;
  };
  return {
    ...{ model: translated, stream: translated, instructions: translated, max_output_tokens: translated },
    ...{ temperature: translated, top_p: translated, user: translated, tool_choice: translated },
    safety_identifier: dropped((_id, { parent }) => asNonEmptyString(parent.user) !== null),
    input: list(
      union(
        {
          message: { ...part, role: translated, content },
          function_call: { ...call, arguments: translated },
          custom_tool_call: { ...call, input: translated },
          function_call_output: result,
          custom_tool_call_output: result,
          reasoning: {
            ...{ ...part, encrypted_content: dropped(isReasoningLost) },
            summary: dropped((summary, context) => hasElements(summary) && isReasoningLost(summary, context)),
            content: dropped((texts, context) => hasElements(texts) && isReasoningLost(texts, context)),
          },
          additional_tools: { ...part, role: translated, tools: translated },
          tool_search_output: { ...part, tools: translated },
          tool_search_call: part,
          web_search_call: part,
        },
        'message',
      ),
    ),
    tools: list(
      union({
        function: functionTool,
        custom: customTool,
        namespace: { ...part, name: translated, tools: list(union({ function: functionTool, custom: customTool })) },
      }),
    ),
    parallel_tool_calls: dropped((value, { parent }) => value === false && asArray(parent.tools).length === 0),
    reasoning: object({
      ...{ effort: translated, summary: translated, generate_summary: translated },
      ...{ context: dropped(isNot('auto')), mode: dropped(isNot('standard')) },
    }),
    text: object({ format: translated, verbosity: dropped() }),
    previous_response_id: refused(responses('previous_response_id')),
    conversation: refused(responses('conversation')),
    background: refused(stored('background', 'responses'), isNot(false)),
    prompt: refused(stored('prompt', 'prompts')),
    moderation: refused(missing('moderation')),
    top_logprobs: refused(missing('top_logprobs'), isNotNumber(0)),
    include: refused(
      'include: message.output_text.logprobs is not available from this model',
      (names) => asArray(names).includes('message.output_text.logprobs'),
      dropped((names) => asArray(names).some((name) => name !== 'reasoning.encrypted_content')),
    ),
    access_programs: dropped(hasMembers),
    context_management: dropped(hasElements),
    image: dropped(hasMembers),
    max_tool_calls: dropped(),
    metadata: dropped(hasMembers),
    service_tier: dropped(isNot('auto', 'default')),
    store: dropped(isNot(false)),
    stream_options: object({ include_obfuscation: dropped(isNot(false)) }),
    truncation: dropped(isNot('disabled')),
    ...{ prompt_cache_key: dropped(), prompt_cache_options: dropped(), prompt_cache_retention: dropped() },
  };
})();
