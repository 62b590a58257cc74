/** Tools, tool choice and answer format of a messages request in the chat dialect. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { refuse } from '../contract/untranslatable.ts';
import { filledText, given, isObject, objectOf } from '../json/lossless-json.ts';

/** Members of the chat request. */
export function readMessagesTools(body: JsonObject): JsonObject {
  const tools = readTools(body.tools);
  const choice = objectOf(body.tool_choice);
  const isSingle = tools.length > 0 && choice.disable_parallel_tool_use === true;
  return given({
    tools: tools.length > 0 ? tools : null,
    tool_choice: readChoice(body.tool_choice),
    parallel_tool_calls: isSingle ? false : null,
    response_format: readFormat(objectOf(body.output_config).format ?? body.output_format),
  });
}

function readTools(tools: unknown): JsonObject[] {
  if (tools === undefined || tools === null) return [];
  if (!Array.isArray(tools)) return refuse('tools is no list');
  return tools.map((tool: unknown) => readTool(objectOf(tool)));
}

function readTool({ type, name, description, input_schema: schema, strict }: JsonObject): JsonObject {
  const isOurs = type === undefined || type === null || type === 'custom';
  if (!isOurs) return refuse('tools of a vendor cannot be expressed in the other dialect');
  const known = filledText(name) ?? refuse('a tool has no name');
  if (!isObject(schema ?? {})) return refuse('the input schema of a tool is no schema');
  const parameters = schema ?? { type: 'object', properties: {} };
  return { type: 'function', function: { name: known, ...given({ description, parameters, strict: strict === true ? true : null }) } };
}

function readChoice(choice: unknown): unknown {
  if (choice === undefined || choice === null) return null;
  const { type, name } = objectOf(choice);
  switch (type) {
    case 'auto':
    case 'none':
      return type;
    case 'any':
      return 'required';
    case 'tool':
      return { type: 'function', function: { name: filledText(name) ?? refuse('tool_choice names no tool') } };
    default:
      return refuse('tool_choice cannot be expressed in the chat dialect');
  }
}

/** `strict`, because the caller's own dialect promises an answer that fits the schema. */
function readFormat(format: unknown): JsonObject | null {
  if (format === undefined || format === null) return null;
  const { type, schema } = objectOf(format);
  if (type !== 'json_schema' || !isObject(schema)) return refuse('output_config.format cannot be expressed in the chat dialect');
  return { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } };
}
