/** Translates the tools, the tool choice and the response format of a chat request to the messages dialect. */
import { asString, type JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject, omitNullish } from '../json/lossless-json.ts';
import { expectArray } from '../json/strict-json.ts';
import type { MessagesTurn } from './chat-turns.ts';
import { jsonAnswerToolName } from './json-answer-tool.ts';
import { getCacheControl } from './media.ts';

export interface ToolSettings {
  readonly tools: readonly JsonObject[];
  /** Null for the vendor's default. */
  readonly toolChoice: JsonObject | null;
  /** The value for `output_config.format`. */
  readonly format: JsonObject | null;
}

export function toToolSettings(body: JsonObject, turns: readonly MessagesTurn[], supportsSchema: boolean): ToolSettings {
  const declared = expectArray(body.tools, 'tools').map((tool) => toTool(asLosslessObject(tool), supportsSchema));
  // The vendor needs the definitions of all tools that the conversation has used, even if the model can't call any of
  // them now.
  const tools = declared.length > 0 ? declared : toolsFromHistory(turns);
  const choice = declared.length === 0 && tools.length > 0 ? { type: 'none' } : toToolChoice(body.tool_choice);
  const isForced = choice?.type === 'any' || choice?.type === 'tool';
  const format = parseFormat(body.response_format);
  // A forced tool call doesn't produce text, so the response format doesn't matter.
  if (format === null || isForced) return { tools, toolChoice: withParallel(choice, body, tools), format: null };
  if (supportsSchema && format.schema !== null) {
    return { tools, toolChoice: withParallel(choice, body, tools), format: { type: 'json_schema', schema: format.schema } };
  }
  const mayCallOthers = declared.length > 0 && choice?.type !== 'none';
  return {
    tools: [...tools, createJsonAnswerTool(format)],
    toolChoice: { ...(mayCallOthers ? { type: 'any' } : { type: 'tool', name: jsonAnswerToolName }), disable_parallel_tool_use: true },
    format: null,
  };
}

function toTool(tool: JsonObject, supportsSchema: boolean): JsonObject {
  const fn = tool.function;
  if (tool.type !== 'function' || !isLosslessObject(fn))
    return rejectUntranslatable('tools: only function tools are supported by vendors that use the messages dialect');
  const name = asNonEmptyString(fn.name) ?? rejectUntranslatable('tools: a tool must have a name');
  if (name === jsonAnswerToolName) return rejectUntranslatable('tools: a tool has a name that is reserved for the gateway');
  const schema = fn.parameters ?? {};
  if (!isLosslessObject(schema)) return rejectUntranslatable('tools: the parameters of a tool must be a JSON schema');
  return {
    name,
    ...omitNullish({ description: fn.description }),
    input_schema: toObjectSchema(schema),
    ...(supportsSchema && fn.strict === true ? { strict: true } : {}),
    ...getCacheControl(tool),
  };
}

/** Adds `type` if it's missing, because messages vendors require it and chat callers can omit it. */
function toObjectSchema(schema: JsonObject): JsonObject {
  if (Object.keys(schema).length === 0) return { type: 'object', properties: {} };
  return schema.type === undefined ? { type: 'object', ...schema } : schema;
}

function toolsFromHistory(turns: readonly MessagesTurn[]): JsonObject[] {
  const calls = turns.flatMap(({ content }) => content.filter((block) => block.type === 'tool_use'));
  const names = new Set(calls.map((call) => asString(call.name) ?? ''));
  return [...names].map((name) => ({ name, input_schema: toObjectSchema({}) }));
}

function toToolChoice(choice: unknown): JsonObject | null {
  switch (choice) {
    case undefined:
    case null:
      return null;
    case 'auto':
    case 'none':
      return { type: choice };
    case 'required':
      return { type: 'any' };
    default: {
      const { type, function: fn } = asLosslessObject(choice);
      const name = type === 'function' ? asNonEmptyString(asLosslessObject(fn).name) : null;
      return name === null
        ? rejectUntranslatable('tool_choice: is not supported by vendors that use the messages dialect')
        : { type: 'tool', name };
    }
  }
}

function withParallel(choice: JsonObject | null, body: JsonObject, tools: readonly JsonObject[]): JsonObject | null {
  const isForced = choice?.type === 'any' || choice?.type === 'tool';
  if (tools.length === 0) return isForced ? choice : null;
  if (body.parallel_tool_calls !== false || choice?.type === 'none') return choice;
  return { ...(choice ?? { type: 'auto' }), disable_parallel_tool_use: true };
}

/** The JSON output that the caller asks for. If `schema` is null, it can be any object. */
interface JsonFormat {
  readonly schema: JsonObject | null;
  readonly description: string | null;
}

function parseFormat(format: unknown): JsonFormat | null {
  if (format === undefined || format === null) return null;
  const { type, json_schema: jsonSchema } = asLosslessObject(format);
  if (type === 'text') return null;
  if (type === 'json_object') return { schema: null, description: null };
  const { schema, description } = asLosslessObject(jsonSchema);
  if (type !== 'json_schema' || !isLosslessObject(jsonSchema))
    return rejectUntranslatable('response_format: is not supported by vendors that use the messages dialect');
  if (schema !== undefined && schema !== null && !isLosslessObject(schema))
    return rejectUntranslatable('response_format: the schema must be an object');
  return { schema: schema ?? null, description: asString(description) };
}

function createJsonAnswerTool({ schema, description }: JsonFormat): JsonObject {
  const use = 'Gives the answer to the user. Its input is the whole answer, as one JSON object.';
  return {
    name: jsonAnswerToolName,
    description: description === null ? use : `${use} ${description}`,
    input_schema: toObjectSchema(schema ?? { type: 'object', additionalProperties: true }),
  };
}
