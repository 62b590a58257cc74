/**
 * Reads the text of large calls in the low-priority thread. A prompt of 29 MB takes hundreds of milliseconds, and if we
 * read it on the event loop, all other calls would have to wait.
 */
import type { CallContent, SettledCall } from '../../core/call.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { defineJob, largeBytes, toBuffer, withOwnMemory } from '../../core/low-priority-thread.ts';
import { joinInTurns } from '../../core/turns.ts';
import { rememberFacts } from '../../dialects/json/body-facts.ts';
import type { inspectLargeBody, LargeBody, readLargePrompt } from './large-text-jobs.ts';
import { hasText, type MaskedPrompt } from './masked-prompt.ts';

const jobs = new URL('./large-text-jobs.ts', import.meta.url).href;
const inspectInThread = defineJob<typeof inspectLargeBody>(jobs, 'inspectLargeBody');
const readInThread = defineJob<typeof readLargePrompt>(jobs, 'readLargePrompt');

/**
 * The prompts of large calls, keyed by the body of the request. A batch may be stored in several transactions, so an
 * entry lives until its body is garbage-collected.
 */
const known = new WeakMap<Buffer, MaskedPrompt>();

/**
 * Checks a large body and extracts everything from it that the call and its record need. Returns the body to send to
 * the vendor and the positions of its fields. `body` is transferred to the thread, so don't use it afterwards. Throws
 * `bad_json`.
 */
export async function receiveLargeBody(
  owner: string,
  body: Buffer,
  use: Omit<LargeBody, 'bytes'>,
): Promise<{ readonly body: Buffer; readonly spans: BodySpans }> {
  const { bytes, spans, facts, prompt } = await inspectInThread(owner, { ...use, bytes: await withOwnMemory(body) });
  const received = toBuffer(bytes);
  rememberFacts(received, facts);
  if (prompt !== null) known.set(received, prompt);
  return { body: received, spans };
}

/**
 * Reads the prompts of large calls in the low-priority thread, so that `findLargePrompt` can return them afterwards. If
 * this process received the call, the prompt is usually known already.
 */
export async function readLargePrompts(calls: readonly SettledCall[]): Promise<void> {
  for (const call of calls) {
    if (!hasText(call) || known.has(call.content.request) || call.content.request.length < largeBytes) continue;
    const { request } = call.content;
    // Send a copy to the thread, because the original is still in use by the call and might end up in the quarantine
    // table.
    const bytes = await joinInTurns([request], request.length);
    known.set(request, await readInThread(call.metadata.projectId, { route: call.metadata.route, bytes }));
  }
}

export function findLargePrompt({ request }: CallContent): MaskedPrompt | undefined {
  return known.get(request);
}
