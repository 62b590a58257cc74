/**
 * Items of tool calls. Calls may overlap: each ends when its vendor says so, or when its arguments are complete and another item begins.
 * The text for a custom tool is one delta, because it is known when its JSON is complete.
 */
import { isObject, type JsonObject, parseJson } from '../../../core/json/narrow.ts';
import { parseLossless } from '../../json/parse-lossless.ts';
import type { ItemPlace, OpenItem, OutputItems } from './output-items.ts';
import { type CallerTool, parseCustomArguments } from './tools.ts';

/** Sent while there is nothing to send, so that no proxy considers the connection idle. */
export const keepAlive = ': keep-alive\n\n';

/** Functions return the events that are ready to send. `key` identifies a call. */
export interface CallItems {
  start(key: unknown, call: { readonly id: string; readonly name: string }): string;
  add(key: unknown, argumentText: string): string;
  end(key: unknown): string;
  /** Ends the calls to which nothing can be added. */
  endWhole(): string;
  endAll(): string;
  count(): number;
  open(): OpenItem[];
}

interface OpenCall extends ItemPlace {
  readonly callId: string;
  readonly isCustom: boolean;
  readonly names: JsonObject;
  arguments: string;
}

export function createCallItems(items: OutputItems, tools: ReadonlyMap<string, CallerTool>): CallItems {
  const calls = new Map<unknown, OpenCall>();
  let count = 0;

  const end = (key: unknown): string => {
    const call = calls.get(key);
    if (!call) return '';
    calls.delete(key);
    const { id, index, isCustom, names } = call;
    const place = { item_id: id, output_index: index };
    const given = isCustom ? parseCustomArguments(call.arguments, parseLossless) : call.arguments;
    // No arguments mean `{}`.
    const whole = !isCustom && given.trim() === '' ? '{}' : given;
    const isSent = isCustom ? whole === '' : whole === given;
    const name = isCustom ? 'response.custom_tool_call_input' : 'response.function_call_arguments';
    const delta = isSent ? '' : items.event(`${name}.delta`, { ...place, delta: whole });
    const members = isCustom ? { input: whole } : { name: names.name, arguments: whole };
    const status = isWholeJson(isCustom ? call.arguments : whole) ? 'completed' : 'incomplete';
    return delta + items.event(`${name}.done`, { ...place, ...members }) + items.done(index, toItem(call, status, whole));
  };

  return {
    start(key, { id: callId, name: vendorName }) {
      const { kind = 'function', name = vendorName, namespace = null } = tools.get(vendorName) ?? {};
      const isCustom = kind === 'custom';
      const names = { name, ...(namespace === null ? {} : { namespace }) };
      const call: OpenCall = { ...items.next(isCustom ? 'ctc' : 'fc'), callId, isCustom, names, arguments: '' };
      calls.set(key, call);
      count += 1;
      return items.added(call.index, toItem(call, 'in_progress', ''));
    },
    add(key, argumentText) {
      const call = calls.get(key);
      if (!call || argumentText === '') return '';
      call.arguments += argumentText;
      if (call.isCustom) return keepAlive;
      return items.event('response.function_call_arguments.delta', { item_id: call.id, output_index: call.index, delta: argumentText });
    },
    end,
    endWhole: () => [...calls].map(([key, call]) => (isWholeJson(call.arguments) ? end(key) : '')).join(''),
    endAll: () => [...calls.keys()].map(end).join(''),
    count: () => count,
    open: () => [...calls.values()].map((call) => [call.index, toItem(call, 'incomplete', call.arguments)]),
  };
}

function toItem({ id, isCustom, callId, names }: OpenCall, status: string, text: string): JsonObject {
  return {
    id,
    type: isCustom ? 'custom_tool_call' : 'function_call',
    status,
    [isCustom ? 'input' : 'arguments']: text,
    call_id: callId,
    ...names,
  };
}

/** Whether arguments are a JSON object, which nothing can extend. A response may end within them. */
function isWholeJson(text: string): boolean {
  return text.trimEnd().endsWith('}') && isObject(parseJson(text));
}
