/** Reads the tool calls of chat responses, plain and streamed. */
import { asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { createObjectText, toJsonText } from '../json/json-text.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject } from '../json/lossless-json.ts';

/** The calls in a message, with the legacy `function_call` as the last one. */
export function listToolCalls({ tool_calls: calls, function_call: legacyCall }: JsonObject): JsonObject[] {
  const all = Array.isArray(calls) ? calls.map(asLosslessObject) : [];
  if (isLosslessObject(legacyCall)) all.push({ function: legacyCall });
  return all;
}

/** The text of `arguments`, which some vendors send as an object. */
export function toArgumentText(value: unknown): string {
  if (typeof value === 'string') return value;
  return isLosslessObject(value) ? toJsonText(value) : '';
}

/** A call of a streamed response, as far as it has arrived. */
export interface StreamedCall {
  /** Among the calls of the response. */
  readonly position: number;
  readonly id: string | null;
  /** Empty until it has arrived. */
  readonly name: string;
  /** Whether its arguments are a JSON object, which no further delta can extend. */
  isComplete(): boolean;
}

export interface ToolCallDelta {
  readonly call: StreamedCall;
  /** It is the first delta of its call. */
  readonly isFirst: boolean;
  readonly argumentText: string;
}

export interface ToolCallReader {
  /** The calls that a delta of the message begins or continues. */
  read(delta: JsonObject): readonly ToolCallDelta[];
  /** Number of calls so far. */
  count(): number;
}

const noDeltas: readonly ToolCallDelta[] = [];

/** Assigns the deltas of a stream to calls, for vendors that omit the index of calls or give all of them the same one, too. */
export function createToolCallReader(): ToolCallReader {
  /** The call to which further deltas with a key belong. */
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
    // Vendors that omit the index send complete calls, each with its id, or continue the last one.
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

/** Whether a delta with the index of a complete call begins another one. */
function isOtherCall(call: StreamedCall, id: unknown, name: unknown): boolean {
  const isOther = call.id !== null && asNonEmptyString(id) !== null && id !== call.id;
  return isOther && asNonEmptyString(name) !== null && call.isComplete();
}
