import type { JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject, omitNullish } from '../json/lossless-json.ts';
import { expectArray } from '../json/strict-json.ts';

/** Returns the fields of the chat request that describe its tools and output format. */
export function toChatTools(body: JsonObject): JsonObject {
  const tools = expectArray(body.tools, 'tools').map((tool) => toTool(asLosslessObject(tool)));
  const choice = asLosslessObject(body.tool_choice);
  const isSingle = tools.length > 0 && choice.disable_parallel_tool_use === true;
  return omitNullish({
    tools: tools.length > 0 ? tools : null,
    tool_choice: toToolChoice(body.tool_choice),
    parallel_tool_calls: isSingle ? false : null,
    response_format: toResponseFormat(asLosslessObject(body.output_config).format ?? body.output_format),
  });
}

function toTool({ type, name, description, input_schema: schema, strict }: JsonObject): JsonObject {
  const isFunction = type === undefined || type === null || type === 'custom';
  if (!isFunction) return rejectUntranslatable('tools: only custom tools are supported by vendors that use the chat dialect');
  const toolName = asNonEmptyString(name) ?? rejectUntranslatable('tools: a tool must have a name');
  if (!isLosslessObject(schema ?? {})) return rejectUntranslatable('tools: the input schema of a tool must be an object');
  const parameters = schema ?? { type: 'object', properties: {} };
  return {
    type: 'function',
    function: { name: toolName, ...omitNullish({ description, parameters, strict: strict === true ? true : null }) },
  };
}

function toToolChoice(choice: unknown): unknown {
  if (choice === undefined || choice === null) return null;
  const { type, name } = asLosslessObject(choice);
  switch (type) {
    case 'auto':
    case 'none':
      return type;
    case 'any':
      return 'required';
    case 'tool':
      return { type: 'function', function: { name: asNonEmptyString(name) ?? rejectUntranslatable('tool_choice: must name a tool') } };
    default:
      return rejectUntranslatable('tool_choice: is not supported by vendors that use the chat dialect');
  }
}

/**
 * Translates the response format. We always set `strict`, because the messages dialect guarantees that the output
 * matches the schema.
 */
function toResponseFormat(format: unknown): JsonObject | null {
  if (format === undefined || format === null) return null;
  const { type, schema } = asLosslessObject(format);
  if (type !== 'json_schema' || !isLosslessObject(schema))
    return rejectUntranslatable('output_config.format: is not supported by vendors that use the chat dialect');
  return { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } };
}
