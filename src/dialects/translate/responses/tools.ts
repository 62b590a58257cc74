/**
 * Translates the tools and the tool choice of a responses request to the chat dialect.
 *
 * - Custom tools take free text. They become functions with a single argument, `input`.
 * - Tools in a namespace become functions, and the namespace becomes a prefix of their names.
 * - Tools that OpenAI runs itself have no equivalent. If the model can do without them, we leave them out as long as
 *   other tools remain. The caller can see this in the response's `tools`. If not, the request is untranslatable.
 */
import { createHash } from 'node:crypto';
import { asArray, asString, type JsonObject } from '../../../core/json/narrow.ts';
import { rejectUntranslatable } from '../../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject, omitNullish } from '../../json/lossless-json.ts';

export interface CallerTool {
  readonly kind: 'function' | 'custom';
  readonly name: string;
  readonly namespace: string | null;
}

interface Declared {
  readonly vendorName: string;
  readonly caller: CallerTool;
  readonly chatTool: JsonObject;
}

/** The only argument of the function that stands for a custom tool. */
const customInput = 'input';

/**
 * OpenAI runs these tools itself. We may leave them out, because the model can manage without them. It doesn't need
 * `tool_search` because we always offer the tools that it would find.
 */
const optionalTools = /^(?:web_search(?:_preview)?(?:_\d{4}_\d{2}_\d{2})?|image_generation|tool_search)$/;

/**
 * Throws UntranslatableError if chat can't express the tools, or if `mayOmit` is false but one of OpenAI's tools would
 * have to be left out.
 */
export function translateTools(body: JsonObject, mayOmit: boolean) {
  if (body.tools !== undefined && body.tools !== null && !Array.isArray(body.tools)) return rejectUntranslatable('tools: must be a list');
  const tools = [...asArray(body.tools), ...asArray(body.input).flatMap((item) => toolsOfItem(asLosslessObject(item)))];
  const isOffered = (tool: unknown): boolean => !optionalTools.test(asString(asLosslessObject(tool).type) ?? '');
  const offered = tools.filter(isOffered);
  const all = offered.flatMap((tool: unknown) => declare(asLosslessObject(tool), null));
  if (all.length === 0 && tools.length > 0)
    return rejectUntranslatable("tools: this model's vendor does not support web search or other tools that OpenAI runs");
  const omitted = tools.filter((tool) => !isOffered(tool)).map((tool) => asString(asLosslessObject(tool).type) ?? '');
  if (omitted.length > 0 && !mayOmit)
    rejectUntranslatable("tools: this model's vendor does not support tools that OpenAI runs, but a later model in the plan does");
  const { choice, allowed } = translateChoice(body.tool_choice);
  const declared = allowed === null ? all : all.filter(({ vendorName }) => allowed.has(vendorName));
  const isSingle = declared.length > 0 && body.parallel_tool_calls === false;
  return {
    /** The `tools`, `tool_choice` and `parallel_tool_calls` of the chat request. */
    chat: omitNullish({
      tools: declared.length > 0 ? declared.map(({ chatTool }) => chatTool) : null,
      tool_choice: declared.length > 0 ? choice : null,
      parallel_tool_calls: isSingle ? false : null,
    }),
    /** The caller's tools that the model can use. */
    offered,
    /** The types of omitted tools, which only OpenAI can run. */
    omitted,
    /** Maps each tool name that we send to the vendor to the caller's tool. */
    byVendorName: new Map(all.map(({ vendorName, caller }) => [vendorName, caller])),
  };
}

/**
 * Returns the tools that an input item declares. Codex declares tools in the input, and the results of a tool search
 * contain tools too.
 */
function toolsOfItem({ type, tools }: JsonObject): readonly unknown[] {
  return type === 'additional_tools' || type === 'tool_search_output' ? asArray(tools) : [];
}

function declare(tool: JsonObject, namespace: string | null): Declared[] {
  const { type, description } = tool;
  if (type === 'namespace' && namespace === null) {
    const name = asNonEmptyString(tool.name) ?? rejectUntranslatable('tools: a namespace must have a name');
    return asArray(tool.tools).flatMap((inner) => declare(asLosslessObject(inner), name === defaultNamespace ? null : name));
  }
  if (type !== 'function' && type !== 'custom')
    return rejectUntranslatable("tools: this model's vendor only supports functions and custom tools, not tools that OpenAI runs");
  const name = asNonEmptyString(tool.name) ?? rejectUntranslatable('tools: a tool must have a name');
  const vendorName = toVendorName(name, namespace);
  const fn =
    type === 'custom'
      ? { name: vendorName, description: describeCustom(tool), parameters: customParameters }
      : { name: vendorName, ...omitNullish({ description, parameters: tool.parameters, strict: tool.strict === true ? true : null }) };
  return [{ vendorName, caller: { kind: type, name, namespace }, chatTool: { type: 'function', function: fn } }];
}

const customParameters = { type: 'object', properties: { [customInput]: { type: 'string' } }, required: [customInput] };

/** Returns the description of a custom tool. A function can't enforce a grammar, so the description includes it. */
function describeCustom({ description, format }: JsonObject): string {
  const { type, syntax, definition } = asLosslessObject(format);
  const grammar =
    type === 'grammar' && typeof definition === 'string'
      ? `The text must match this ${asString(syntax) ?? ''} grammar:\n${definition}`
      : '';
  const use = `The argument \`${customInput}\` is the whole text for this tool, unchanged.`;
  return [asString(description) ?? '', use, grammar].filter((text) => text !== '').join('\n\n');
}

/** Vendors don't accept longer tool names. */
const maxNameLength = 64;
/** Tools in this namespace keep their plain names, as if they had no namespace. */
const defaultNamespace = 'functions';

export function toVendorName(name: string, namespace: string | null): string {
  if (namespace === null || namespace === defaultNamespace) return name;
  const joined = `${namespace}${namespace.endsWith('__') ? '' : '__'}${name}`.replaceAll(/[^\w-]/g, '_');
  if (joined.length <= maxNameLength) return joined;
  const digest = createHash('sha256').update(`${namespace}/${name}`).digest('hex').slice(0, 12);
  return `${joined.slice(0, maxNameLength - digest.length - 1)}_${digest}`;
}

/** Translates the tool choice. `allowed` is null if the model may use any tool. */
function translateChoice(choice: unknown): { choice: unknown; allowed: ReadonlySet<string> | null } {
  if (choice === undefined || choice === null) return { choice: null, allowed: null };
  if (choice === 'auto' || choice === 'none' || choice === 'required') return { choice, allowed: null };
  const { type, mode, tools } = asLosslessObject(choice);
  if (type === 'allowed_tools') return { choice: mode, allowed: new Set(asArray(tools).map((tool) => namedTool(asLosslessObject(tool)))) };
  return { choice: { type: 'function', function: { name: namedTool(asLosslessObject(choice)) } }, allowed: null };
}

function namedTool({ type, name, namespace }: JsonObject): string {
  const toolName = type === 'function' || type === 'custom' ? asNonEmptyString(name) : null;
  if (toolName === null) return rejectUntranslatable("tool_choice: the tool is not supported by this model's vendor");
  return toVendorName(toolName, asNonEmptyString(namespace));
}

export function toCustomArguments(input: unknown): string {
  return JSON.stringify({ [customInput]: asString(input) ?? '' });
}

/**
 * Returns the text for a custom tool. Models sometimes ignore the function's parameters and write the text directly,
 * which is accepted as well.
 */
export function parseCustomArguments(argumentText: string, parse: (text: string) => unknown): string {
  const parsed = parse(argumentText);
  return (isLosslessObject(parsed) ? asString(parsed[customInput]) : null) ?? argumentText;
}
