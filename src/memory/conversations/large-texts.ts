/**
 * Reads the texts of large calls in the low-priority thread, before the transaction that stores them. Reading a prompt
 * of 29 MB takes hundreds of milliseconds, which other calls would have to wait on the event loop.
 */
import type { CallContent, SettledCall } from '../../core/call.ts';
import { defineJob, largeBytes } from '../../core/low-priority-thread.ts';
import { joinInTurns } from '../../core/turns.ts';
import type { readLargeText } from './read-large-text.ts';
import { hasText, type MaskedText } from './text-reader.ts';

const readInThread = defineJob<typeof readLargeText>(new URL('./read-large-text.ts', import.meta.url).href, 'readLargeText');

/** Until the request is freed. A batch may be stored in several transactions. */
const known = new WeakMap<Buffer, MaskedText>();

/** Reads what `findLargeText` returns. */
export async function readLargeTexts(calls: readonly SettledCall[]): Promise<void> {
  for (const call of calls) {
    if (!hasText(call) || call.content.request.length < largeBytes || known.has(call.content.request)) continue;
    const { request, response } = call.content;
    // A copy, because the call in progress may still use the body, and the quarantine the record.
    const bytes = await joinInTurns([request], request.length);
    known.set(request, await readInThread(call.metadata.projectId, { route: call.metadata.route, bytes, response }));
  }
}

/** Undefined for small calls. */
export function findLargeText({ request }: CallContent): MaskedText | undefined {
  return request.length < largeBytes ? undefined : known.get(request);
}
