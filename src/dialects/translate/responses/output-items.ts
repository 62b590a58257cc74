/**
 * Numbers the events of a stream and collects the items of its response. Each item's id is derived from the call's id.
 */
import type { JsonObject } from '../../../core/json/narrow.ts';
import { formatEvent } from '../../../core/sse.ts';

export interface ItemPlace {
  readonly index: number;
  readonly id: string;
}

/** An item in its current state, with its position in the output. */
export type OpenItem = readonly [index: number, item: JsonObject];

export type OutputItems = ReturnType<typeof createOutputItems>;

/** We use `digits` in the ids of all items, so pass different digits for each call. */
export function createOutputItems(digits: string) {
  const ended: OpenItem[] = [];
  let count = 0;
  let sequence = 0;

  const event = (type: string, members: JsonObject): string => {
    const text = formatEvent(type, { type, sequence_number: sequence, ...members });
    sequence += 1;
    return text;
  };

  return {
    event,
    /** Starts an item at the next position in the output. Its id begins with `prefix`. */
    next(prefix: string): ItemPlace {
      const index = count;
      count += 1;
      return { index, id: `${prefix}_${digits}${String(index).padStart(4, '0')}` };
    },
    added: (index: number, item: JsonObject): string => event('response.output_item.added', { output_index: index, item }),
    done(index: number, item: JsonObject): string {
      ended.push([index, item]);
      return event('response.output_item.done', { output_index: index, item });
    },
    count: () => count,
    /** Returns all items in order. `open` contains those that haven't ended yet. */
    list: (open: readonly OpenItem[]): JsonObject[] => [...ended, ...open].sort(([left], [right]) => left - right).map(([, item]) => item),
  };
}
