/**
 * Recognizes results of the SDK's built-in queries. Temporal's web UI uses them to show the stack and definition of a
 * running workflow. The results contain file names and fixed sentences, so they break the payload rule, and a codec
 * doesn't know which query it's encoding a result for.
 *
 * That's why we recognize the results by their shape, as narrowly as possible. If a new SDK version changes the shape,
 * the UI shows an error instead of the stack.
 */
import { isNote } from '../../../workflows/notes.ts';
import { asArray, asObject, isObject } from '../../core/json/narrow.ts';

/** A line of a V8 stack, such as `    at async conversationIdle (/app/workflows/conversation-idle.ts:24:18)`. */
const stackLine =
  /^ {4}at (?:(?:async |new )*[\w.$<>]{1,100}(?: \[as \w{1,60}\])? \((?:<anonymous>|[^\s()]{1,300}:\d+:\d+)\)|[^\s()]{1,300}:\d+:\d+)$/;
const maxStackLength = 256 * 1024;

export function isSystemQueryResult(value: unknown): boolean {
  return isStackTrace(value) || isEnhancedStackTrace(value) || isWorkflowMetadata(value);
}

function isStackTrace(value: unknown): boolean {
  if (typeof value !== 'string' || value === '' || value.length > maxStackLength) return false;
  return value.split('\n').every((line) => line === '' || stackLine.test(line));
}

/**
 * Recognizes a result of `__enhanced_stack_trace`. Since `showStackTraceSources` is off, it doesn't contain any source
 * code.
 */
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

/**
 * Recognizes a result of the query `__temporal_workflow_metadata`. All texts in it have to be notes, except for the
 * sentences with which the SDK describes its own queries.
 */
export function isWorkflowMetadata(value: unknown): boolean {
  if (!isObject(value) || !hasOnly(value, ['definition', 'currentDetails'])) return false;
  const details = value['currentDetails'] ?? '';
  if (details !== '' && !(typeof details === 'string' && isNote(details))) return false;
  const definition = asObject(value['definition']);
  const handlers = ['queryDefinitions', 'signalDefinitions', 'updateDefinitions'];
  if (!hasOnly(definition, ['type', ...handlers]) || !isName(definition['type'])) return false;
  return handlers.flatMap((kind) => asArray(definition[kind])).every(isHandler);
}

function isHandler(value: unknown): boolean {
  if (!isObject(value) || !hasOnly(value, ['name', 'description']) || !isName(value['name'])) return false;
  const { name, description } = value;
  if (description === undefined) return true;
  return (
    typeof description === 'string' && (String(name).startsWith('__') ? /^Returns [a-z ]{1,80}\.$/.test(description) : isNote(description))
  );
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && /^\w{1,128}$/.test(value);
}

function hasOnly(value: object, keys: readonly string[]): boolean {
  return Object.keys(value).every((key) => keys.includes(key));
}
