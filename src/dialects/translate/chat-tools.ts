/** Tools, tool choice and answer format of a chat request in the messages dialect. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { asString } from '../../core/json/narrow.ts';
import { refuse } from '../contract/untranslatable.ts';
import { filledText, given, isObject, objectOf } from '../json/lossless-json.ts';
import type { Turn } from './chat-turns.ts';
import { answerToolName } from './json-answer-tool.ts';
import { cacheMarkOf } from './media.ts';

/** What the request comes to. */
export interface ToolWishes {
  readonly tools: readonly JsonObject[];
  /** Null: left to the vendor. */
  readonly toolChoice: JsonObject | null;
  /** For `output_config.format`. */
  readonly format: JsonObject | null;
}

export function readToolWishes(body: JsonObject, turns: readonly Turn[], supportsSchema: boolean): ToolWishes {
  const declared = readTools(body.tools, supportsSchema);
  // A conversation with tool calls needs their tools, also where none may be called any more.
  const tools = declared.length > 0 ? declared : rememberedTools(turns);
  const choice = declared.length === 0 && tools.length > 0 ? { type: 'none' } : readChoice(body.tool_choice);
  const isForced = choice?.type === 'any' || choice?.type === 'tool';
  const wish = readFormat(body.response_format);
  // A caller who wants a tool called gets no text, so the format of the text does not matter.
  if (wish === null || isForced) return { tools, toolChoice: withParallel(choice, body, tools), format: null };
  if (supportsSchema && wish.schema !== null) {
    return { tools, toolChoice: withParallel(choice, body, tools), format: { type: 'json_schema', schema: wish.schema } };
  }
  const mayCallOthers = declared.length > 0 && choice?.type !== 'none';
  return {
    tools: [...tools, answerToolOf(wish)],
    toolChoice: { ...(mayCallOthers ? { type: 'any' } : { type: 'tool', name: answerToolName }), disable_parallel_tool_use: true },
    format: null,
  };
}

function readTools(tools: unknown, supportsSchema: boolean): JsonObject[] {
  if (tools === undefined || tools === null) return [];
  if (!Array.isArray(tools)) return refuse('tools is no list');
  return tools.map((tool: unknown) => readTool(objectOf(tool), supportsSchema));
}

function readTool(tool: JsonObject, supportsSchema: boolean): JsonObject {
  const fn = tool.function;
  if (tool.type !== 'function' || !isObject(fn))
    return refuse('a tool is no function; tools of a vendor cannot be expressed in the other dialect');
  const name = filledText(fn.name) ?? refuse('a tool has no name');
  if (name === answerToolName) return refuse('a tool has a name that the gateway uses itself');
  const schema = fn.parameters ?? {};
  if (!isObject(schema)) return refuse('the parameters of a tool are no schema');
  return {
    name,
    ...given({ description: fn.description }),
    input_schema: schemaOf(schema),
    ...(supportsSchema && fn.strict === true ? { strict: true } : {}),
    ...cacheMarkOf(tool),
  };
}

/** The whole schema, as it stands; the vendor asks for its type, which chat lets be left out. */
function schemaOf(schema: JsonObject): JsonObject {
  if (Object.keys(schema).length === 0) return { type: 'object', properties: {} };
  return schema.type === undefined ? { type: 'object', ...schema } : schema;
}

function rememberedTools(turns: readonly Turn[]): JsonObject[] {
  const calls = turns.flatMap(({ content }) => content.filter((block) => block.type === 'tool_use'));
  const names = new Set(calls.map((call) => asString(call.name) ?? ''));
  return [...names].map((name) => ({ name, input_schema: schemaOf({}) }));
}

function readChoice(choice: unknown): JsonObject | null {
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
      const { type, function: fn } = objectOf(choice);
      const name = type === 'function' ? filledText(objectOf(fn).name) : null;
      return name === null ? refuse('tool_choice cannot be expressed in the messages dialect') : { type: 'tool', name };
    }
  }
}

function withParallel(choice: JsonObject | null, body: JsonObject, tools: readonly JsonObject[]): JsonObject | null {
  const isForced = choice?.type === 'any' || choice?.type === 'tool';
  if (tools.length === 0) return isForced ? choice : null;
  if (body.parallel_tool_calls !== false || choice?.type === 'none') return choice;
  return { ...(choice ?? { type: 'auto' }), disable_parallel_tool_use: true };
}

/** The JSON that the answer shall be; null: any text. `schema` null: any object. */
interface FormatWish {
  readonly schema: JsonObject | null;
  readonly description: string | null;
}

function readFormat(format: unknown): FormatWish | null {
  if (format === undefined || format === null) return null;
  const { type, json_schema: wish } = objectOf(format);
  if (type === 'text') return null;
  if (type === 'json_object') return { schema: null, description: null };
  const { schema, description } = objectOf(wish);
  if (type !== 'json_schema' || !isObject(wish)) return refuse('response_format cannot be expressed in the messages dialect');
  if (schema !== undefined && schema !== null && !isObject(schema)) return refuse('the schema of response_format is no object');
  return { schema: schema ?? null, description: asString(description) };
}

function answerToolOf({ schema, description }: FormatWish): JsonObject {
  const use = 'Gives the answer to the user. Its input is the whole answer, as one JSON object.';
  return {
    name: answerToolName,
    description: description === null ? use : `${use} ${description}`,
    input_schema: schemaOf(schema ?? { type: 'object', additionalProperties: true }),
  };
}
