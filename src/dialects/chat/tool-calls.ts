import { asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { createObjectText, toJsonText } from '../json/json-text.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject } from '../json/lossless-json.ts';

/** Returns the tool calls of a message. A legacy `function_call` comes last. */
export function listToolCalls({ tool_calls: calls, function_call: legacyCall }: JsonObject): JsonObject[] {
  const all = Array.isArray(calls) ? calls.map(asLosslessObject) : [];
  if (isLosslessObject(legacyCall)) all.push({ function: legacyCall });
  return all;
}

/** Returns tool call arguments as JSON text. Some vendors send an object. */
export function toArgumentText(value: unknown): string {
  if (typeof value === 'string') return value;
  return isLosslessObject(value) ? toJsonText(value) : '';
}

/** A tool call in a streamed response. Its name and arguments may still be arriving. */
export interface StreamedCall {
  /** The index of the call among the tool calls of the response, starting at 0. */
  readonly position: number;
  readonly id: string | null;
  readonly name: string;
  /** Returns true once the arguments are a complete JSON object. No later delta can add to them. */
  isComplete(): boolean;
}

export interface ToolCallDelta {
  readonly call: StreamedCall;
  readonly isFirst: boolean;
  readonly argumentText: string;
}

const noDeltas: readonly ToolCallDelta[] = [];

/**
 * Assigns the deltas of a stream to tool calls. This also works for vendors that omit the index or give all calls the
 * same index.
 */
export function createToolCallReader() {
  /** The latest tool call for each index, or for each id if the vendor doesn't send an index. */
  const latest = new Map<unknown, ReturnType<typeof createCall>>();
  let lastKey: unknown = null;
  let count = 0;

  const start = (key: unknown): ReturnType<typeof createCall> => {
    const call = createCall(count);
    count += 1;
    latest.set(key, call);
    return call;
  };

  const readDelta = (delta: JsonObject): ToolCallDelta => {
    const { index, id, function: fn } = delta;
    // Some vendors don't send an index. In that case, a delta with a new id starts a call, and a delta without an id
    // continues the last call.
    const key = index ?? asNonEmptyString(id) ?? lastKey;
    lastKey = key;
    const { name, arguments: argumentPiece } = asObject(fn);
    const known = latest.get(key);
    const isFirst = known === undefined || isOtherCall(known, id, name);
    const call = isFirst ? start(key) : known;
    const argumentText = toArgumentText(argumentPiece);
    call.id ??= asNonEmptyString(id);
    if (call.name === '') call.name = asString(name) ?? '';
    call.arguments.add(argumentText);
    return { call, isFirst, argumentText };
  };

  return {
    read({ tool_calls: calls, function_call: legacyCall }: JsonObject): readonly ToolCallDelta[] {
      if (Array.isArray(calls)) return calls.map((delta: unknown) => readDelta(asObject(delta)));
      return isObject(legacyCall) ? [readDelta({ index: 'function_call', function: legacyCall })] : noDeltas;
    },
    count: () => count,
  };
}

function createCall(position: number) {
  const text = createObjectText();
  return { position, id: null as string | null, name: '', arguments: text, isComplete: text.isComplete };
}

/**
 * Some vendors give all calls the same index. So if a call is complete and the next delta has another id and a name, we
 * assume that a new call starts.
 */
function isOtherCall(call: StreamedCall, id: unknown, name: unknown): boolean {
  const isOther = call.id !== null && asNonEmptyString(id) !== null && id !== call.id;
  return isOther && asNonEmptyString(name) !== null && call.isComplete();
}
