/**
 * Translates a responses request to a chat request, and determines which of its fields the response repeats. Bodies
 * have to come from `parseLossless`.
 *
 * See `member-rules.ts` for the fields that we translate, and for what happens to other fields.
 */
import type { JsonObject } from '../../../core/json/narrow.ts';
import { rejectUntranslatable } from '../../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject, omitNullish } from '../../json/lossless-json.ts';
import { responsesToChat } from '../member-rules.ts';
import { applyRules, createChanges, type RequestChanges } from '../request-changes.ts';
import { type ReasoningForm, toChatMessages } from './items.ts';
import { type CallerTool, translateTools } from './tools.ts';

export interface RequestEcho {
  readonly members: JsonObject;
  /** Maps each tool name that we send to the vendor to the caller's tool. */
  readonly tools: ReadonlyMap<string, CallerTool>;
}

interface ResponsesTranslation {
  /** True if tools that only OpenAI can run may be left out, provided that other tools remain. */
  readonly mayOmitTools?: boolean;
  /** Collects every field that's dropped or adjusted. */
  readonly changes?: RequestChanges;
}

/**
 * Returns the chat request without the model, token limit and `stream`, together with the fields that the response
 * repeats. Throws UntranslatableError if chat can't express the request.
 */
export function translateResponsesRequest(
  body: JsonObject,
  form: ReasoningForm,
  { mayOmitTools = true, changes = createChanges() }: ResponsesTranslation = {},
): { chat: JsonObject; echo: RequestEcho } {
  applyRules(body, responsesToChat, form, changes);
  const { effort } = asLosslessObject(body.reasoning);
  const { format } = asLosslessObject(body.text);
  const tools = translateTools(body, mayOmitTools);
  for (const name of tools.omitted) changes.dropped.add(`tools.${name}`);
  const chat = omitNullish({
    messages: toChatMessages(body, form),
    max_completion_tokens: body.max_output_tokens,
    temperature: body.temperature,
    top_p: body.top_p,
    ...tools.chat,
    response_format: toResponseFormat(format),
    reasoning_effort: effort,
    user: asNonEmptyString(body.user) ?? asNonEmptyString(body.safety_identifier),
  });
  return { chat, echo: { members: echoOf(body, tools.offered), tools: tools.byVendorName } };
}

function toResponseFormat(format: unknown): JsonObject | null {
  if (format === undefined || format === null) return null;
  const { type, name, schema, description, strict } = asLosslessObject(format);
  switch (type) {
    case 'text':
      return null;
    case 'json_object':
      return { type };
    case 'json_schema':
      if (!isLosslessObject(schema)) return rejectUntranslatable('text.format.schema: must be an object');
      return { type, json_schema: { name: asNonEmptyString(name) ?? 'answer', schema, ...omitNullish({ description, strict }) } };
    default:
      return rejectUntranslatable("text.format: is not supported by this model's vendor");
  }
}

/**
 * Returns the fields of the request that OpenAI repeats in the response. `store` and `truncation` always have the same
 * values, because the gateway doesn't store or truncate anything, whatever the request says.
 */
function echoOf(body: JsonObject, tools: readonly unknown[]): JsonObject {
  const { effort, summary } = asLosslessObject(body.reasoning);
  const { format, verbosity } = asLosslessObject(body.text);
  return {
    background: false,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: null,
    metadata: body.metadata ?? {},
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: { effort: effort ?? null, summary: summary ?? null },
    safety_identifier: body.safety_identifier ?? null,
    store: false,
    temperature: body.temperature ?? null,
    text: { format: format ?? { type: 'text' }, ...omitNullish({ verbosity }) },
    tool_choice: body.tool_choice ?? 'auto',
    tools,
    top_p: body.top_p ?? null,
    truncation: 'disabled',
    user: body.user ?? null,
  };
}
