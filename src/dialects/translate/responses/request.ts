/**
 * Translates a responses request to a chat request, and determines what its response repeats of it. Pure. Bodies come from `parseLossless`.
 *
 * `member-rules.ts` says which members are translated here, and what becomes of the others.
 */
import type { JsonObject } from '../../../core/json/narrow.ts';
import { rejectUntranslatable } from '../../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject, omitNullish } from '../../json/lossless-json.ts';
import { responsesToChat } from '../member-rules.ts';
import { applyRules, createChanges, type RequestChanges } from '../request-changes.ts';
import { type ReasoningForm, toChatMessages } from './items.ts';
import { type CallerTool, translateTools } from './tools.ts';

/** What the response needs to know about its request. */
export interface RequestEcho {
  /** Members of the response that repeat the request. */
  readonly members: JsonObject;
  /** By the name that the vendor gets. */
  readonly tools: ReadonlyMap<string, CallerTool>;
}

/** How a request is translated. */
interface ResponsesTranslation {
  /** Whether tools that OpenAI runs may be left out when others remain. */
  readonly mayOmitTools?: boolean;
  /** Gets what is dropped and adjusted. */
  readonly changes?: RequestChanges;
}

/** The chat request, without model, token limit and stream, and what its response repeats. Throws UntranslatableError. */
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
      return rejectUntranslatable("text.format: does not exist at this model's vendor");
  }
}

/** The members in which OpenAI repeats the request. Nothing is stored and nothing is cut, whatever the request says. */
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
