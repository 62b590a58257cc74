/**
 * Enforces the rule for Temporal payloads: they can contain ids, counts, hashes and the gateway's own notes
 * (`workflows/notes.ts`), but no other text. Temporal keeps histories for days and shows them in a web UI, and we can't
 * erase parts of them. So they must never contain private data.
 *
 * A payload is JSON of at most 16 KiB. All strings and keys consist of id characters (which also allow RFC 3339 times)
 * and are no longer than an id. If a payload breaks the rule, we throw an error that contains the path but never the
 * value.
 *
 * The rule applies to the inputs, results, signals, memos, summaries and heartbeats of clients and workers. There are
 * three exceptions. Tracing headers don't pass through a codec. Results of the SDK's own `__` queries are recognized by
 * their shape (`system-queries.ts`), and are never stored in a history. Messages and stacks of failures are accepted
 * because of the mark in `failure-converter.ts`. They only contain our own text, because `wrap-activities.ts` replaces
 * all other errors.
 *
 * @see docs/decisions/2026-11-21-temporal-payloads.md
 */
import type { Payload, PayloadCodec } from '@temporalio/common';
import { isNote } from '../../../workflows/notes.ts';
import { isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { failureMark } from './failure-converter.ts';
import { isSystemQueryResult, isWorkflowMetadata } from './system-queries.ts';

const maxBytes = 16 * 1024;
const idPattern = /^[A-Za-z0-9_:/.+-]{0,128}$/;

/**
 * Thrown if a payload breaks the rule for what may be sent to Temporal. The message shows the path of the value but not
 * the value itself. The path is safe, because its keys have passed the check.
 */
export class PayloadRejectedError extends Error {
  constructor(reason: string) {
    super(`workflow payload rejected: ${reason}; only ids, counts, hashes and RFC 3339 times may be sent to Temporal`);
    this.name = 'PayloadRejectedError';
  }
}

/**
 * Throws `PayloadRejectedError` if a value breaks the rule. Checking a value before a start or signal makes the caller
 * fail rather than the workflow.
 */
export function checkPayload(value: unknown): void {
  if (value === undefined) return;
  const text = stringify(value);
  if (text !== undefined) checkText(text);
}

/**
 * Creates the codec for all clients and workers. It rejects payloads that could contain private text, and doesn't
 * change any others.
 */
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
 * Checks whether a payload can stay unencrypted. Notes can, because operators need them to tell runs apart, and so can
 * workflow metadata with the current details.
 */
export function isPublic({ metadata, data }: Payload): boolean {
  if (!data || metadata?.[failureMark] || String(metadata?.['encoding'] && Buffer.from(metadata['encoding'])) !== 'json/plain')
    return false;
  const value = parse(Buffer.from(data).toString());
  return typeof value === 'string' ? isNote(value) : isWorkflowMetadata(value);
}

/** Throws if a failure's payload is anything but an object with a message, a stack, or both. */
function checkFailure(text: string): void {
  const value = parse(text);
  const isFailure =
    isObject(value) &&
    Object.entries(value).every(([name, member]) => (name === 'message' || name === 'stack_trace') && typeof member === 'string');
  if (!isFailure) throw new PayloadRejectedError('marked as a failure, but it has fields that failures do not have');
}

function checkText(text: string, { systemQueries = false } = {}): void {
  const value = parse(text);
  if (typeof value === 'string' && isNote(value)) return;
  if (systemQueries && isSystemQueryResult(value)) return;
  if (Buffer.byteLength(text) > maxBytes) throw new PayloadRejectedError(`larger than ${maxBytes} bytes`);
  checkStrings(value);
}

/** Checks every string and key. Avoids recursion, because the sender decides how deep the nesting is. */
function checkStrings(root: unknown): void {
  const pending: { path: string; value: unknown }[] = [{ path: 'value', value: root }];
  for (let item = pending.pop(); item; item = pending.pop()) {
    const { path, value } = item;
    if (typeof value === 'string') {
      if (!idPattern.test(value)) throw new PayloadRejectedError(`${path} contains text`);
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, member] of Object.entries(value)) {
        if (!idPattern.test(key)) throw new PayloadRejectedError(`the name of a member of ${path} contains text`);
        pending.push({ path: `${path}.${key}`.slice(0, 200), value: member });
      }
    }
  }
}

/** We leave out the parser's error, because its message quotes the text. */
function parse(text: string): unknown {
  const value = parseJson(text);
  if (value === undefined) throw new PayloadRejectedError('not valid JSON');
  return value;
}

function stringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    throw new PayloadRejectedError('cannot be serialized as JSON');
  }
}
