/**
 * Recognises the answers to the SDK's own queries, which Temporal's web UI asks of a running workflow: its stack and its definition. They
 * hold file names and fixed sentences, so they break the rule for payloads; and a codec is not told which query it encodes for.
 *
 * So they are known by their form, as narrowly as it can be told. Nothing is lost when a new SDK answers in another form: the UI shows
 * an error in place of the stack.
 */
import { asArray, asObject, isObject } from '../../core/json/narrow.ts';

/** A line of a V8 stack, `    at async conversationIdle (/app/workflows/conversation-idle.ts:24:18)`. */
const stackLine =
  /^ {4}at (?:(?:async |new )*[\w.$<>]{1,100}(?: \[as \w{1,60}\])? \((?:<anonymous>|[^\s()]{1,300}:\d+:\d+)\)|[^\s()]{1,300}:\d+:\d+)$/;
const maxStackLength = 256 * 1024;

export function isSystemQueryResult(value: unknown): boolean {
  return isStackTrace(value) || isEnhancedStackTrace(value) || isWorkflowMetadata(value);
}

/** `__stack_trace`. */
function isStackTrace(value: unknown): boolean {
  if (typeof value !== 'string' || value === '' || value.length > maxStackLength) return false;
  return value.split('\n').every((line) => line === '' || stackLine.test(line));
}

/** `__enhanced_stack_trace`; the sources themselves are never sent (`showStackTraceSources` is off). */
function isEnhancedStackTrace(value: unknown): boolean {
  if (!isObject(value) || !hasOnly(value, ['sdk', 'stacks', 'sources'])) return false;
  if (asObject(value['sdk'])['name'] !== 'typescript' || Object.keys(asObject(value['sources'])).length > 0) return false;
  return asArray(value['stacks']).every(
    (stack) => isObject(stack) && hasOnly(stack, ['locations']) && asArray(stack['locations']).every(isLocation),
  );
}

function isLocation(value: unknown): boolean {
  if (!isObject(value) || !hasOnly(value, ['file_path', 'function_name', 'line', 'column', 'internal_code'])) return false;
  return Object.values(value).every(
    (member) => typeof member !== 'string' || /^(?:(?:async |new )*[\w.$<>:/@+-]{1,300}(?: \[as \w{1,60}\])?)$/.test(member),
  );
}

/** `__temporal_workflow_metadata`: descriptions are sentences, but only the SDK's own queries have any. */
function isWorkflowMetadata(value: unknown): boolean {
  if (!isObject(value) || !hasOnly(value, ['definition', 'currentDetails']) || (value['currentDetails'] ?? '') !== '') return false;
  const definition = asObject(value['definition']);
  const handlers = ['queryDefinitions', 'signalDefinitions', 'updateDefinitions'];
  if (!hasOnly(definition, ['type', ...handlers]) || !isName(definition['type'])) return false;
  return handlers.flatMap((kind) => asArray(definition[kind])).every(isHandler);
}

function isHandler(value: unknown): boolean {
  if (!isObject(value) || !hasOnly(value, ['name', 'description']) || !isName(value['name'])) return false;
  return (
    value['description'] === undefined ||
    (String(value['name']).startsWith('__') && /^Returns [a-z ]{1,80}\.$/.test(String(value['description'])))
  );
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && /^\w{1,128}$/.test(value);
}

function hasOnly(value: object, keys: readonly string[]): boolean {
  return Object.keys(value).every((key) => keys.includes(key));
}
