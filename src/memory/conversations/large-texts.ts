/**
 * Reads the texts of large calls in the low-priority thread. On the event loop, where other calls would have to wait,
 * reading a prompt of 29 MB takes hundreds of milliseconds.
 */
import type { CallContent, SettledCall } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { defineJob, largeBytes } from '../../core/low-priority-thread.ts';
import { joinInTurns } from '../../core/turns.ts';
import { rememberFacts } from '../../dialects/json/body-facts.ts';
import type { inspectLargeBody, LargeBody, readLargePrompt } from './large-text-jobs.ts';
import { hasText, type MaskedPrompt } from './masked-prompt.ts';

const jobs = new URL('./large-text-jobs.ts', import.meta.url).href;
const inspectInThread = defineJob<typeof inspectLargeBody>(jobs, 'inspectLargeBody');
const readInThread = defineJob<typeof readLargePrompt>(jobs, 'readLargePrompt');

/** By the body. A batch may be stored in several transactions, so prompts stay until the body is freed. */
const known = new WeakMap<Buffer, MaskedPrompt>();

/**
 * Checks a large body, and reads everything in it that the call and its record need. Returns the body that is sent on,
 * with the positions of its members. `body` can't be used any more after this. Throws `bad_json`.
 */
export async function receiveLargeBody(
  owner: string,
  body: Buffer,
  use: Omit<LargeBody, 'bytes'>,
): Promise<{ readonly body: Buffer; readonly spans: BodySpans }> {
  // A body that arrived in one piece may share its memory with other data of the connection.
  const bytes = body.buffer.byteLength === body.length ? body : await joinInTurns([body], body.length);
  const inspected = await inspectInThread(owner, { ...use, bytes });
  if ('refused' in inspected) throw gatewayError(inspected.refused.code, { message: inspected.refused.message });
  const { bytes: checked, spans, facts, prompt } = inspected;
  const received = Buffer.from(checked.buffer, checked.byteOffset, checked.byteLength);
  rememberFacts(received, facts);
  if (prompt !== null) known.set(received, prompt);
  return { body: received, spans };
}

/** Reads the prompts that `findLargePrompt` returns. Those of calls that were received by this process are mostly known. */
export async function readLargePrompts(calls: readonly SettledCall[]): Promise<void> {
  for (const call of calls) {
    if (!hasText(call) || call.content.request.length < largeBytes || known.has(call.content.request)) continue;
    const { request } = call.content;
    // A copy, because the call in progress may still use the body, and the quarantine the record.
    const bytes = await joinInTurns([request], request.length);
    known.set(request, await readInThread(call.metadata.projectId, { route: call.metadata.route, bytes }));
  }
}

/** Undefined for small requests. */
export function findLargePrompt({ request }: CallContent): MaskedPrompt | undefined {
  return request.length < largeBytes ? undefined : known.get(request);
}
