/**
 * Checks and searches a large body in the low-priority thread. On the event loop this would delay all other calls by up
 * to a second.
 */
import { gatewayError } from '../../core/errors.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { defineJob } from '../../core/low-priority-thread.ts';
import { joinInTurns } from '../../core/turns.ts';
import { rememberFacts } from '../json/body-facts.ts';
import type { Inspection, inspectBody } from './inspect-body.ts';

const inspectInThread = defineJob<typeof inspectBody>(new URL('./inspect-body.ts', import.meta.url).href, 'inspectBody');

/**
 * Returns the body that is sent on, with the positions of its members. `body` can't be used any more after this. Throws
 * `bad_json`. The project `owner` takes turns with others.
 */
export async function inspectLargeBody(
  body: Buffer,
  { owner, ...inspection }: Omit<Inspection, 'bytes'> & { readonly owner: string },
): Promise<{ readonly body: Buffer; readonly spans: BodySpans }> {
  // A body that arrived in one piece may share its memory with other data of the connection.
  const bytes = body.buffer.byteLength === body.length ? body : await joinInTurns([body], body.length);
  const inspected = await inspectInThread(owner, { ...inspection, bytes });
  if ('refused' in inspected) throw gatewayError(inspected.refused.code, { message: inspected.refused.message });
  const { bytes: checked, spans, facts } = inspected;
  const result = Buffer.from(checked.buffer, checked.byteOffset, checked.byteLength);
  rememberFacts(result, facts);
  return { body: result, spans };
}
