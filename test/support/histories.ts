/**
 * Reads workflow histories that were exported by Temporal's own tools (`temporal workflow show --output json` or a
 * download from the web UI), so that we can replay them.
 *
 * We can't use the SDK's own reader (`historyFromJSON`, which `Worker.runReplayHistory` uses). If npm installs
 * protobufjs more than once, as it does with SDK 1.24, this reader rejects every file with "type must be a Type". A
 * replay accepts what this file returns.
 */
import { readFile } from 'node:fs/promises';
import proto from '@temporalio/proto';
import { isObject } from '../../src/core/json/narrow.ts';
import { parseJson } from '../../src/core/json/parse.ts';

/** Parses an exported history. */
export function parseHistory(text: string): proto.temporal.api.history.v1.History {
  const exported = parseJson(text);
  if (!isObject(exported)) throw new Error('this is no exported history');
  return proto.temporal.api.history.v1.History.fromObject(expandTimes(exported) as Record<string, unknown>);
}

/** Returns the committed history with this name as text. */
export async function readCommittedHistory(name: string): Promise<string> {
  return readFile(new URL(`../fixtures/histories/${name}.json`, import.meta.url), 'utf8');
}

/**
 * Returns a history as text, including the bytes of all payloads as Temporal stores them and shows them in its UI. We
 * read the fields one by one, because the message's own `toJSON` would encode bytes as base64.
 */
export function rawHistory(history: object): string {
  return JSON.stringify(readable(history));
}

function readable(value: unknown): unknown {
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString();
  if (Array.isArray(value)) return value.map(readable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, readable(member)]));
}

/**
 * In exported JSON, times and durations are text. Convert them to seconds and nanoseconds for messages. `fromObject`
 * does everything else.
 */
function expandTimes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(expandTimes);
  if (isObject(value)) return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, expandTimes(member)]));
  if (typeof value !== 'string') return value;
  const time = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z$/.exec(value);
  if (time) return { seconds: Date.parse(`${time[1]}Z`) / 1000, nanos: nanosOf(time[2]) };
  const duration = /^(\d+)(?:\.(\d+))?s$/.exec(value);
  if (duration) return { seconds: Number(duration[1]), nanos: nanosOf(duration[2]) };
  return value;
}

function nanosOf(fraction = ''): number {
  return Number(fraction.padEnd(9, '0'));
}
