/**
 * The rule for Temporal payloads: ids, counts, hashes and the gateway's own notes (`workflows/notes.ts`), never other text. Histories are kept for days, shown in a web UI and cannot be erased
 * row by row, so no private data may reach one.
 *
 * A payload is JSON of at most 16 KiB in which every string and key consists of id characters (RFC 3339 times qualify) and is no longer than
 * an id. A violation throws an error that names the path, never the value.
 *
 * The rule covers inputs, results, signals, memos, summaries and heartbeats of client and worker. Headers (tracing) do not pass a codec. Results of the
 * SDK's own `__` queries pass by their shape (`system-queries.ts`); query results never enter a history. Message and stack of a failure pass
 * by the mark of `failure-converter.ts`: they are the gateway's own, because `wrap-activities.ts` replaces all others.
 *
 * @see docs/decisions/2026-11-21-temporal-payloads.md
 */
import type { Payload, PayloadCodec } from '@temporalio/common';
import { isNote } from '../../../workflows/notes.ts';
import { isObject } from '../../core/json/narrow.ts';
import { failureMark } from './failure-converter.ts';
import { isSystemQueryResult, isWorkflowMetadata } from './system-queries.ts';

const maxBytes = 16 * 1024;
const idPattern = /^[A-Za-z0-9_:/.+-]{0,128}$/;

/** A payload breaks the rule. The message names the path of the violation, whose keys have passed the rule, and never a value. */
export class PayloadRejectedError extends Error {
  constructor(reason: string) {
    super(`workflow payload rejected: ${reason}; only ids, counts, hashes and RFC 3339 times may pass to Temporal`);
    this.name = 'PayloadRejectedError';
  }
}

/** Throws `PayloadRejectedError`. Call it before a start or a signal, so that the caller fails and not the workflow. */
export function checkPayload(value: unknown): void {
  if (value === undefined) return;
  const text = stringify(value);
  if (text !== undefined) checkText(text);
}

/** The codec of every client and worker: passes payloads unchanged and rejects those that break the rule. */
export function createPayloadCodec(): PayloadCodec {
  return {
    encode: async (payloads) => {
      for (const payload of payloads) checkEncoded(payload);
      return payloads;
    },
    decode: async (payloads) => payloads,
  };
}

function checkEncoded({ metadata, data }: Payload): void {
  const encoding = metadata?.['encoding'] ? Buffer.from(metadata['encoding']).toString() : '';
  if (encoding === 'binary/null') return;
  if (encoding !== 'json/plain' || !data) throw new PayloadRejectedError('not plain JSON');
  const text = Buffer.from(data).toString();
  if (metadata?.[failureMark]) checkFailure(text);
  else checkText(text, { systemQueries: true });
}

/**
 * Whether a payload stays readable without a key, so that operators can tell runs apart: a note, or the workflow metadata, which contains the
 * current details.
 */
export function isPublic({ metadata, data }: Payload): boolean {
  if (!data || metadata?.[failureMark] || String(metadata?.['encoding'] && Buffer.from(metadata['encoding'])) !== 'json/plain')
    return false;
  const value = parse(Buffer.from(data).toString());
  return typeof value === 'string' ? isNote(value) : isWorkflowMetadata(value);
}

/** The mark admits two strings and nothing else. */
function checkFailure(text: string): void {
  const value = parse(text);
  const isFailure =
    isObject(value) &&
    Object.entries(value).every(([name, member]) => (name === 'message' || name === 'stack_trace') && typeof member === 'string');
  if (!isFailure) throw new PayloadRejectedError('marked as a failure, but not a failure');
}

function checkText(text: string, { systemQueries = false } = {}): void {
  const value = parse(text);
  if (typeof value === 'string' && isNote(value)) return;
  if (systemQueries && isSystemQueryResult(value)) return;
  if (Buffer.byteLength(text) > maxBytes) throw new PayloadRejectedError(`larger than ${maxBytes} bytes`);
  checkStrings(value);
}

/** Checks every string and key. Iterative, because the sender controls the depth. */
function checkStrings(root: unknown): void {
  const pending: { path: string; value: unknown }[] = [{ path: 'value', value: root }];
  for (let item = pending.pop(); item; item = pending.pop()) {
    const { path, value } = item;
    if (typeof value === 'string') {
      if (!idPattern.test(value)) throw new PayloadRejectedError(`${path} contains text`);
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, member] of Object.entries(value)) {
        if (!idPattern.test(key)) throw new PayloadRejectedError(`a key of ${path} contains text`);
        pending.push({ path: `${path}.${key}`.slice(0, 200), value: member });
      }
    }
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new PayloadRejectedError('not valid JSON'); // The parser's message would quote the text.
  }
}

function stringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    throw new PayloadRejectedError('cannot be serialized as JSON');
  }
}
