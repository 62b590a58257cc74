/** Reads the tool calls of chat responses, both plain and streamed. */
import { asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { createObjectText, toJsonText } from '../json/json-text.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject } from '../json/lossless-json.ts';

/** Returns the calls in a message. If there is a legacy `function_call`, it comes last. */
export function listToolCalls({ tool_calls: calls, function_call: legacyCall }: JsonObject): JsonObject[] {
  const all = Array.isArray(calls) ? calls.map(asLosslessObject) : [];
  if (isLosslessObject(legacyCall)) all.push({ function: legacyCall });
  return all;
}

/** Returns `arguments` as text, because some vendors send an object instead of a string. */
export function toArgumentText(value: unknown): string {
  if (typeof value === 'string') return value;
  return isLosslessObject(value) ? toJsonText(value) : '';
}

/** A tool call of a streamed response. It may still be incomplete. */
export interface StreamedCall {
  /** The index of this call among all calls of the response, starting at 0. */
  readonly position: number;
  readonly id: string | null;
  /** This is empty until the name has arrived. */
  readonly name: string;
  /** Reports whether the arguments are a complete JSON object, which no further delta can extend. */
  isComplete(): boolean;
}

export interface ToolCallDelta {
  readonly call: StreamedCall;
  /** Whether this is the first delta of its call. */
  readonly isFirst: boolean;
  readonly argumentText: string;
}

export interface ToolCallReader {
  /** Returns the calls that this delta of the message starts or continues. */
  read(delta: JsonObject): readonly ToolCallDelta[];
  /** Returns the number of calls so far. */
  count(): number;
}

const noDeltas: readonly ToolCallDelta[] = [];

/**
 * Assigns the deltas of a stream to tool calls. This also works for vendors that omit the index of calls, or that give
 * all calls the same index.
 */
export function createToolCallReader(): ToolCallReader {
  /** Maps each key to the call that further deltas with this key belong to. */
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
    // Vendors that omit the index either send complete calls, each with its own id, or continue the last call.
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
    read({ tool_calls: calls, function_call: legacyCall }) {
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

/** Reports whether a delta starts a new call although an earlier, complete call has the same index. */
function isOtherCall(call: StreamedCall, id: unknown, name: unknown): boolean {
  const isOther = call.id !== null && asNonEmptyString(id) !== null && id !== call.id;
  return isOther && asNonEmptyString(name) !== null && call.isComplete();
}
