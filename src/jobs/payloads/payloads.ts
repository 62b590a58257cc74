/**
 * What may pass to Temporal: ids, counts and hashes, never text (decisions 8). Histories are kept for days, shown in a web UI and
 * cannot be erased row by row, so nothing private may ever reach one.
 *
 * The rule: JSON of at most 16 KiB in which every string and every key is made of id characters and no longer than an id. RFC 3339
 * times are made of these characters too. Whatever breaks it is refused by an error that names the place, never the value.
 *
 * It holds for every payload of client and worker: inputs, results, signals, memos, heartbeats. Headers (tracing) do not pass a codec.
 * Answers to the SDK's own `__` queries are let through by their form (`system-queries.ts`); no query's answer enters a history. Message and
 * stack of a failure are let through by the mark that `failure-converter.ts` sets: they are ours, since `wrap-activities.ts` replaces all others.
 */
import type { Payload, PayloadCodec } from '@temporalio/common';
import { isObject } from '../../core/json/narrow.ts';
import { failureMark } from './failure-mark.ts';
import { isSystemQueryResult } from './system-queries.ts';

const maxBytes = 16 * 1024;
const idPattern = /^[A-Za-z0-9_:/.+-]{0,128}$/;

/** A value that may not pass to Temporal. The message holds no part of the value. */
export class PayloadRejectedError extends Error {
  constructor(reason: string) {
    super(`a workflow payload may hold ids, counts and hashes only: ${reason}`);
    this.name = 'PayloadRefused';
  }
}

/** Throws `PayloadRefused` when the value may not pass. Call it before a start or a signal, so that the caller fails and not the workflow. */
export function checkPayload(value: unknown): void {
  if (value === undefined) return;
  const text = stringify(value);
  if (text !== undefined) checkText(text);
}

/** The codec that every client and worker of ours has. It changes nothing and refuses what breaks the rule. */
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
  if (encoding !== 'json/plain' || !data) throw new PayloadRejectedError('it is not plain JSON');
  const text = Buffer.from(data).toString();
  if (metadata?.[failureMark]) checkFailure(text);
  else checkText(text, { systemQueries: true });
}

/** The mark opens the door for two strings and nothing else. */
function checkFailure(text: string): void {
  const value = parse(text);
  const isFailure =
    isObject(value) &&
    Object.entries(value).every(([name, member]) => (name === 'message' || name === 'stack_trace') && typeof member === 'string');
  if (!isFailure) throw new PayloadRejectedError('it is marked as a failure and is none');
}

function checkText(text: string, { systemQueries = false } = {}): void {
  const value = parse(text);
  if (systemQueries && isSystemQueryResult(value)) return;
  if (Buffer.byteLength(text) > maxBytes) throw new PayloadRejectedError(`it is larger than ${maxBytes} bytes`);
  checkStrings(value);
}

/** Looks at every string and key; with a list of what is still to be seen, since the depth is the sender's. */
function checkStrings(root: unknown): void {
  const pending: { path: string; value: unknown }[] = [{ path: 'value', value: root }];
  for (let item = pending.pop(); item; item = pending.pop()) {
    const { path: place, value } = item;
    if (typeof value === 'string') {
      if (!idPattern.test(value)) throw new PayloadRejectedError(`the string at ${place} is none`);
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, member] of Object.entries(value)) {
        if (!idPattern.test(key)) throw new PayloadRejectedError(`a key in ${place} is none`);
        pending.push({ path: `${place}.${key}`.slice(0, 200), value: member });
      }
    }
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new PayloadRejectedError('it cannot be read as JSON'); // The parser's own message would quote the text.
  }
}

function stringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    throw new PayloadRejectedError('it cannot be written as JSON');
  }
}
