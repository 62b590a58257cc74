/**
 * Parses server-sent events (WHATWG HTML 9.2.6) from chunks that can be split anywhere, even within a UTF-8 character.
 * Supports LF, CRLF and CR line ends, multiple `data` lines, comments and a byte-order mark. The parser also returns
 * the bytes of complete events, so that a relay never sends half an event.
 */

import { isAscii } from 'node:buffer';

export interface SseEvent {
  readonly name: string;
  /** The `data` lines, joined with line feeds. Empty for comments and keep-alives. */
  readonly data: string;
  /** Where the event is in the returned `bytes`, including the blank line at its end. */
  readonly start: number;
  readonly end: number;
}

type ReadEvent = (event: SseEvent) => void;

export interface SseBatch {
  readonly bytes: Buffer;
  readonly events: readonly SseEvent[];
}

/**
 * Thrown if an event exceeds the size limit. Without a limit, a vendor that never sends a line end could exhaust our
 * memory.
 */
export class SseEventTooLargeError extends Error {
  constructor(limitBytes: number) {
    super(`an event is larger than ${limitBytes} bytes`);
    this.name = 'SseEventTooLargeError';
  }
}

const nothing = Buffer.alloc(0);
const space = 0x20;
const colon = 0x3a;
const byteOrderMark = 0xfeff;

export function createSseParser(limitBytes = 16 * 1024 * 1024) {
  let pending: Buffer = nothing;
  /**
   * Collects the bytes of events that are split across chunks. The first `bufferUsed` bytes are in use, and `pending`
   * is a view of the last part of them. We don't need this buffer while `pending` is a view of the latest chunk.
   */
  let buffer: Buffer = nothing;
  let bufferUsed = 0;
  let searchFrom = 0;
  let lineStart = 0;
  let isFirstLine = true;
  /** The fields of the current event. `data` is null until the first `data` line. */
  let name = '';
  let data: string | null = null;

  /**
   * Appends a chunk. The buffer doubles when it's full, so that we don't copy a long event again for each chunk. Bytes
   * that we've already returned are never overwritten.
   */
  const append = (chunk: Buffer): void => {
    const length = pending.length + chunk.length;
    if (bufferUsed === 0 || buffer.length - bufferUsed < chunk.length) {
      buffer = Buffer.allocUnsafe(length + pending.length);
      bufferUsed = pending.copy(buffer);
    }
    bufferUsed += chunk.copy(buffer, bufferUsed);
    pending = buffer.subarray(bufferUsed - length, bufferUsed);
  };

  const add = (chunk: Buffer): void => {
    if (pending.length > 0) append(chunk);
    else {
      pending = chunk;
      buffer = nothing;
      bufferUsed = 0;
    }
  };

  const readLine = (text: string, start: number, end: number): void => {
    const at = isFirstLine && text.charCodeAt(start) === byteOrderMark ? start + 1 : start;
    isFirstLine = false;
    const value = readValue('data', text, at, end);
    if (value !== null) data = data === null ? value : `${data}\n${value}`;
    else name = readValue('event', text, at, end) ?? name;
  };

  const decodeLine = (bytes: Buffer, end: number): void => {
    const line = bytes.toString('utf8', lineStart, end);
    readLine(line, 0, line.length);
  };

  const takeEvent = (start: number, end: number): SseEvent => {
    const event = { name, data: data ?? '', start, end };
    name = '';
    data = null;
    isFirstLine = false;
    return event;
  };

  const scanPending = (atEnd: boolean, read: ReadEvent): Buffer => {
    const bytes = pending;
    const from = searchFrom;
    // Most events are ASCII, and slicing them from a string is several times faster than decoding each of them
    // (measured).
    const text = bytes.toString('latin1', from);
    const isText = isAscii(from === 0 ? bytes : bytes.subarray(from));
    let eventStart = 0;
    let position = 0;
    let nextFeed = text.indexOf('\n');
    let nextReturn = text.indexOf('\r');
    for (;;) {
      const isReturn = nextReturn !== -1 && (nextFeed === -1 || nextReturn < nextFeed);
      const lineEnd = isReturn ? nextReturn : nextFeed;
      position = lineEnd === -1 ? text.length : lineEnd;
      // A CR at the end of the chunk may be the first half of a CRLF, so we wait for the next chunk.
      if (lineEnd === -1 || (isReturn && lineEnd + 1 === text.length && !atEnd)) break;
      const next = isReturn && nextFeed === lineEnd + 1 ? lineEnd + 2 : lineEnd + 1;
      const start = lineStart - from;
      if (lineEnd > start) {
        if (isText && start >= 0) readLine(text, start, lineEnd);
        else decodeLine(bytes, from + lineEnd);
      } else {
        read(takeEvent(eventStart, from + next));
        eventStart = from + next;
      }
      lineStart = from + next;
      if (nextFeed !== -1 && nextFeed < next) nextFeed = text.indexOf('\n', next);
      if (nextReturn !== -1 && nextReturn < next) nextReturn = text.indexOf('\r', next);
    }
    if (atEnd && eventStart < bytes.length) {
      if (lineStart < bytes.length) decodeLine(bytes, bytes.length);
      read(takeEvent(eventStart, bytes.length));
      eventStart = lineStart = bytes.length;
    }
    pending = eventStart === bytes.length ? nothing : bytes.subarray(eventStart);
    searchFrom = from + position - eventStart;
    lineStart -= eventStart;
    if (pending.length > limitBytes) throw new SseEventTooLargeError(limitBytes);
    return eventStart === bytes.length ? bytes : bytes.subarray(0, eventStart);
  };

  const collect = (atEnd: boolean): SseBatch => {
    const events: SseEvent[] = [];
    return { bytes: scanPending(atEnd, (event) => events.push(event)), events };
  };

  return {
    /** Calls `read` for each event that this chunk completes, and returns the bytes of these events. */
    scan(chunk: Buffer, read: ReadEvent): Buffer {
      add(chunk);
      return scanPending(false, read);
    },
    /**
     * Call this at the end of the stream, because the last event may lack its final blank line. Returns the remaining
     * bytes.
     */
    scanEnd: (read: ReadEvent): Buffer => scanPending(true, read),
    push(chunk: Buffer): SseBatch {
      add(chunk);
      return collect(false);
    },
    end: () => collect(true),
  };
}

function readValue(field: string, text: string, start: number, end: number): string | null {
  const fieldEnd = start + field.length;
  if (text.slice(start, fieldEnd) !== field) return null;
  if (fieldEnd === end) return '';
  if (text.charCodeAt(fieldEnd) !== colon) return null;
  return text.slice(text.charCodeAt(fieldEnd + 1) === space ? fieldEnd + 2 : fieldEnd + 1, end);
}

export function formatEvent(name: string | null, json: unknown): string {
  const data = `data: ${JSON.stringify(json)}\n\n`;
  return name === null ? data : `event: ${name}\n${data}`;
}
