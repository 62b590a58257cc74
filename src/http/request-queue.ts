import type { ServerResponse } from 'node:http';

interface Entry {
  readonly response: ServerResponse;
  next: Entry | null;
}

export type RequestQueue = ReturnType<typeof createRequestQueue>;

/**
 * Creates a FIFO queue of requests. It's a linked list, because removing the first element of an array of 20,000 takes
 * 0.2 ms (measured).
 */
export function createRequestQueue() {
  let first: Entry | null = null;
  let last: Entry | null = null;
  let length = 0;
  return {
    /** Includes requests whose client has disconnected since they were added. */
    length: (): number => length,
    add(response: ServerResponse): void {
      const entry = { response, next: null };
      if (last) last.next = entry;
      else first = entry;
      last = entry;
      length += 1;
    },
    /** Removes and returns up to `count` requests. Skips requests whose client has disconnected while they waited. */
    take(count: number): ServerResponse[] {
      const taken: ServerResponse[] = [];
      while (first && taken.length < count) {
        const { response, next }: Entry = first;
        first = next;
        length -= 1;
        if (!response.req.destroyed) taken.push(response);
      }
      if (!first) last = null;
      return taken;
    },
  };
}
