/**
 * Writes the output items of tool calls. Several calls may be open at the same time. A call ends when the vendor says
 * so, or when its arguments are complete and another item starts. The text for a custom tool is sent as a single delta,
 * because it can't be extracted until the JSON is complete.
 */
import type { JsonObject } from '../../../core/json/narrow.ts';
import { createObjectText, type ObjectText } from '../../json/json-text.ts';
import { parseLossless } from '../../json/parse-lossless.ts';
import { keepAliveComment } from '../stream.ts';
import type { ItemPlace, OpenItem, OutputItems } from './output-items.ts';
import { type CallerTool, parseCustomArguments } from './tools.ts';

interface OpenCall extends ItemPlace {
  readonly callId: string;
  readonly isCustom: boolean;
  readonly names: JsonObject;
  arguments: string;
  readonly progress: ObjectText;
}

/**
 * All functions that change a call return the events that have to be sent. `position` is the index of the tool call in
 * the response, starting at 0.
 */
export function createCallItems(items: OutputItems, tools: ReadonlyMap<string, CallerTool>) {
  const calls = new Map<number, OpenCall>();
  /** Calls that have received arguments since the last check for completeness. */
  const changed = new Set<number>();

  const end = (position: number): string => {
    const call = calls.get(position);
    if (!call) return '';
    calls.delete(position);
    const { id, index, isCustom, names, progress } = call;
    const place = { item_id: id, output_index: index };
    const given = isCustom ? parseCustomArguments(call.arguments, parseLossless) : call.arguments;
    // A call without arguments has the arguments `{}`.
    const isEmpty = !isCustom && given.trim() === '';
    const text = isEmpty ? '{}' : given;
    const isSent = isCustom ? text === '' : text === given;
    const name = isCustom ? 'response.custom_tool_call_input' : 'response.function_call_arguments';
    const delta = isSent ? '' : items.event(`${name}.delta`, { ...place, delta: text });
    const members = isCustom ? { input: text } : { name: names.name, arguments: text };
    // The arguments are incomplete if the response was cut off.
    const status = isEmpty || progress.isComplete() ? 'completed' : 'incomplete';
    return delta + items.event(`${name}.done`, { ...place, ...members }) + items.done(index, toItem(call, status, text));
  };

  return {
    start(position: number, { id: callId, name: vendorName }: { readonly id: string; readonly name: string }): string {
      const { kind = 'function', name = vendorName, namespace = null } = tools.get(vendorName) ?? {};
      const isCustom = kind === 'custom';
      const names = { name, ...(namespace === null ? {} : { namespace }) };
      const place = items.next(isCustom ? 'ctc' : 'fc');
      const call: OpenCall = { ...place, callId, isCustom, names, arguments: '', progress: createObjectText() };
      calls.set(position, call);
      return items.added(call.index, toItem(call, 'in_progress', ''));
    },
    add(position: number, argumentText: string): string {
      const call = calls.get(position);
      if (!call || argumentText === '') return '';
      call.arguments += argumentText;
      call.progress.add(argumentText);
      changed.add(position);
      if (call.isCustom) return keepAliveComment;
      return items.event('response.function_call_arguments.delta', { item_id: call.id, output_index: call.index, delta: argumentText });
    },
    end,
    /** Ends every call whose arguments are complete. */
    endWhole(): string {
      const whole = [...changed].filter((position) => calls.get(position)?.progress.isComplete());
      changed.clear();
      return whole.map(end).join('');
    },
    endAll: () => [...calls.keys()].map(end).join(''),
    open: (): OpenItem[] => [...calls.values()].map((call) => [call.index, toItem(call, 'incomplete', call.arguments)]),
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
