/**
 * Workflow histories as Temporal's own tools export them (`temporal workflow show --output json`, the web UI's download), for replays.
 *
 * The SDK's own reader of such files (`historyFromJSON`, which `Worker.runReplayHistory` uses) refuses every file when npm installs protobufjs
 * more than once, as it does with SDK 1.24: "type must be a Type". So they are read here; a replay takes what this returns as it is.
 */
import { readFile } from 'node:fs/promises';
import proto from '@temporalio/proto';
import { isObject, parseJson } from '../../src/core/json/narrow.ts';

/** A history out of its exported text. */
export function parseHistory(text: string): proto.temporal.api.history.v1.History {
  const exported = parseJson(text);
  if (!isObject(exported)) throw new Error('this is no exported history');
  return proto.temporal.api.history.v1.History.fromObject(expandTimes(exported) as Record<string, unknown>);
}

/** Text of the committed history of this name. */
export async function readCommittedHistory(name: string): Promise<string> {
  return readFile(new URL(`../fixtures/histories/${name}.json`, import.meta.url), 'utf8');
}

/**
 * A history as Temporal keeps it and its UI shows it: one text with all payloads' bytes as they are. Read member by member, since the
 * message's own `toJSON` would hide the bytes in base64.
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

/** Exported JSON writes times and durations as text; messages have seconds and nanoseconds. All else `fromObject` understands. */
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
