/**
 * Finds the byte positions of the members of a JSON object, and patches the bytes at those positions.
 *
 * Vendors receive the body exactly as the caller wrote it. Because we never serialize the body again, numbers such as
 * `1.0` or `12345678901234567890`, escapes, key order and white space are preserved. On the hot path this scan is the
 * only time we parse a request. It validates the whole text against RFC 8259. It isn't recursive, so only the size of
 * the body limits the nesting depth, and it only allocates memory for the members of the outermost object.
 *
 * On one core, we measured 1.4 GB/s for bodies that are mostly text, 130 MB/s for bodies of brackets and short numbers,
 * and 1.0 µs for a body of 460 bytes. `JSON.parse` is slower (900 and 60 MB/s, 1.2 µs) and doesn't preserve the bytes.
 */
import { isUtf8 } from 'node:buffer';
import { characters } from './characters.ts';
import { JsonSyntaxError, kindAt, skipSpace, skipString, skipValue, type ValueKind } from './syntax.ts';

const { backslash, closeBrace, closeBracket, colon, comma, openBrace, quote } = characters;

/** A range of bytes. `end` is exclusive. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Member {
  /** The name of the JSON member, without escapes. */
  readonly key: string;
  readonly kind: ValueKind;
  readonly start: number;
  readonly value: Span;
}

export interface BodySpans {
  /** The range of the object in the body, including its braces. */
  readonly object: Span;
  /**
   * The members by key. If a key is repeated, the last one wins. If the scan was limited to certain keys, other members
   * are missing.
   */
  readonly members: ReadonlyMap<string, Member>;
  readonly isEmpty: boolean;
  readonly repeated: ReadonlySet<string>;
  /**
   * A key that only differs from a wanted one in case, such as `Model`. Go's `encoding/json` reads both as the same
   * key. Undefined if there's none, or if the scan wasn't limited to certain keys.
   */
  readonly lookalike?: string;
}

const none: ReadonlySet<string> = new Set();

/** The maximum length of the keys that callers ask for. We don't even decode longer keys in a body. */
const maxWantedKeyLength = 32;

/**
 * Lets a caller skip values if it already knows where they end. It gets a member's key and the offset of the value, and
 * returns the offset after the value. If it returns null, we scan the value. Throws JsonSyntaxError if the value is
 * invalid.
 */
export type SkipMember = (key: string, at: number) => number | null;

/**
 * Scans a whole body. Throws JsonSyntaxError unless the body is a single JSON object in UTF-8 without a byte-order
 * mark. A body can have millions of members, so pass `wantedKeys` if you only need certain ones. `skip` is called for
 * each member that we collect.
 */
export function scanObject(bytes: Buffer, wantedKeys?: ReadonlySet<string>, skip?: SkipMember): BodySpans {
  const start = startOfText(bytes);
  if (bytes[start] !== openBrace) throw new JsonSyntaxError('expected a JSON object', start);
  const spans = scanMembers(bytes, start, wantedKeys, skip);
  assertEnd(bytes, spans.object.end);
  return spans;
}

/** Like `scanObject`, but if the body is any other valid JSON value, returns the kind of the value. */
export function scanJsonText(bytes: Buffer, wantedKeys: ReadonlySet<string>): BodySpans | Exclude<ValueKind, 'object'> {
  const start = startOfText(bytes);
  const kind = kindAt(bytes, start);
  if (kind === 'object') return scanObject(bytes, wantedKeys);
  assertEnd(bytes, skipValue(bytes, start));
  return kind;
}

function startOfText(bytes: Buffer): number {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) throw new JsonSyntaxError('unexpected byte-order mark', 0);
  if (!isUtf8(bytes)) throw new JsonSyntaxError('invalid UTF-8');
  return skipSpace(bytes, 0);
}

function assertEnd(bytes: Buffer, end: number): void {
  const rest = skipSpace(bytes, end);
  if (rest !== bytes.length) throw new JsonSyntaxError('unexpected text after the JSON object', rest);
}

/** Scans the object whose `{` is at `start`, and ignores everything after it. */
export function scanMembers(bytes: Buffer, start: number, wantedKeys?: ReadonlySet<string>, skip?: SkipMember): BodySpans {
  const members = new Map<string, Member>();
  let repeated: Set<string> | null = null;
  let lookalike: string | undefined;
  let unusualKeys = 0;
  let at = skipSpace(bytes, start + 1);
  if (bytes[at] === closeBrace) return { object: { start, end: at + 1 }, members, isEmpty: true, repeated: none };
  for (;;) {
    if (bytes[at] !== quote) throw new JsonSyntaxError('expected a key', at);
    const keyStart = at;
    const keyEnd = skipString(bytes, at);
    const key = decodeWantedKey(bytes, { start: at, end: keyEnd }, wantedKeys);
    if (key === null && lookalike === undefined && mayLookAlike(bytes, { start: at, end: keyEnd }, wantedKeys)) {
      unusualKeys += 1;
      lookalike = findLookalike(bytes, { start: at, end: keyEnd }, wantedKeys, unusualKeys);
    }
    at = skipSpace(bytes, keyEnd);
    if (bytes[at] !== colon) throw new JsonSyntaxError('expected a colon', at);
    at = skipSpace(bytes, at + 1);
    const kind = kindAt(bytes, at);
    const end = (key === null ? null : skip?.(key, at)) ?? skipValue(bytes, at);
    if (key !== null) {
      if (members.has(key)) {
        repeated ??= new Set();
        repeated.add(key);
      }
      members.set(key, { key, kind, start: keyStart, value: { start: at, end } });
    }
    at = skipSpace(bytes, end);
    if (bytes[at] === comma) at = skipSpace(bytes, at + 1);
    else if (bytes[at] === closeBrace) {
      const spans = { object: { start, end: at + 1 }, members, isEmpty: false, repeated: repeated ?? none };
      return lookalike === undefined ? spans : { ...spans, lookalike };
    } else throw new JsonSyntaxError('expected a comma or closing brace', at);
  }
}

/**
 * Yields the elements of the array at `start`. It's lazy, so if you stop early, we don't scan the rest. The syntax of
 * the array must already be validated.
 */
export function* scanElements(bytes: Buffer, start: number): Generator<Pick<Member, 'kind' | 'value'>, void> {
  let at = skipSpace(bytes, start + 1);
  while (bytes[at] !== closeBracket) {
    const end = skipValue(bytes, at);
    yield { kind: kindAt(bytes, at), value: { start: at, end } };
    at = skipSpace(bytes, end);
    if (bytes[at] === comma) at = skipSpace(bytes, at + 1);
  }
}

/**
 * Returns the key at `span`, or null if it isn't one of the wanted ones. In JSON, a key can be up to six times as long
 * as its text, because each character may be escaped as `\uXXXX`.
 */
function decodeWantedKey(bytes: Buffer, span: Span, wantedKeys: ReadonlySet<string> | undefined): string | null {
  if (wantedKeys === undefined) return decodeString(bytes, span);
  if (span.end - span.start > maxWantedKeyLength * 6) return null;
  // Comparing the bytes with each wanted key is faster than decoding the key (measured).
  for (const key of wantedKeys) if (isWrittenAs(bytes, span, key)) return key;
  if (!hasEscapeOrUnicode(bytes, span)) return null;
  const key = decodeString(bytes, span);
  return wantedKeys.has(key) ? key : null;
}

/** Decoding keys takes time, so we don't compare more than this many. No request has as many keys with capitals. */
const maxUnusualKeys = 1_000;
const foldedKeys = new WeakMap<ReadonlySet<string>, ReadonlySet<string>>();

/**
 * Returns the key at `span` if it only differs from a wanted key in case, as Go's `encoding/json` compares them. Also
 * returns it if there were too many keys to compare.
 */
function findLookalike(bytes: Buffer, span: Span, wantedKeys: ReadonlySet<string> = none, count: number): string | undefined {
  const key = decodeString(bytes, span);
  let folded = foldedKeys.get(wantedKeys);
  if (folded === undefined) {
    folded = new Set([...wantedKeys].map((name) => name.toLowerCase()));
    foldedKeys.set(wantedKeys, folded);
  }
  // JavaScript turns the Kelvin sign into a k, as Go does, but not the long s into an s.
  return count > maxUnusualKeys || folded.has(key.toLowerCase().replaceAll('\u017f', 's')) ? key : undefined;
}

/** Returns true if a key has capitals, escapes or other characters that a key could differ in from a wanted one. */
function mayLookAlike(bytes: Buffer, { start, end }: Span, wantedKeys: ReadonlySet<string> | undefined): boolean {
  if (wantedKeys === undefined || end - start > maxWantedKeyLength * 6) return false;
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0;
    if ((byte >= 0x41 && byte <= 0x5a) || byte === backslash || byte > 0x7f) return true;
  }
  return false;
}

/** Returns true if a JSON string is exactly `text` without escapes. Always false if `text` isn't ASCII. */
function isWrittenAs(bytes: Buffer, { start, end }: Span, text: string): boolean {
  if (end - start !== text.length + 2) return false;
  for (let at = 0; at < text.length; at += 1) if (bytes[start + 1 + at] !== text.charCodeAt(at)) return false;
  return true;
}

function hasEscapeOrUnicode(bytes: Buffer, { start, end }: Span): boolean {
  for (let at = start; at < end; at += 1) if (bytes[at] === backslash || (bytes[at] ?? 0) > 0x7f) return true;
  return false;
}

/** Decodes a JSON string. `span` includes the quotes. */
export function decodeString(bytes: Buffer, span: Span): string {
  const inner = bytes.toString('utf8', span.start + 1, span.end - 1);
  if (!inner.includes('\\')) return inner;
  const text: unknown = JSON.parse(`"${inner}"`);
  return typeof text === 'string' ? text : '';
}

export interface Splice {
  readonly span: Span;
  readonly replacement: string;
}

/**
 * Applies `splices` to the body and leaves all other bytes unchanged. The splices can be in any order, but they must
 * not overlap.
 */
export function splice(bytes: Buffer, splices: readonly Splice[]): Buffer {
  if (splices.length === 0) return bytes;
  const ordered = splices.length === 1 ? splices : [...splices].sort((a, b) => a.span.start - b.span.start);
  let length = bytes.length;
  for (const { span, replacement } of ordered) length += Buffer.byteLength(replacement) - (span.end - span.start);
  // Copy by offsets. Creating a view of each piece first would take longer than the copying itself (measured).
  const result = Buffer.allocUnsafe(length);
  let at = 0;
  let from = 0;
  for (const { span, replacement } of ordered) {
    at += bytes.copy(result, at, from, span.start);
    at += result.write(replacement, at);
    from = span.end;
  }
  bytes.copy(result, at, from);
  return result;
}

/** The connection writes each piece separately, so we join small adjacent pieces into one of up to this size. */
const maxJoinedBytes = 4_096;

/**
 * Like `splice`, but returns the pieces without joining them, because copying a large body takes tens of milliseconds.
 */
export function spliceParts(bytes: Buffer, splices: readonly Splice[]): Buffer[] {
  const parts: Buffer[] = [];
  const add = (part: Buffer): void => {
    const last = parts.at(-1);
    if (part.length === 0) return;
    if (last && last.length + part.length <= maxJoinedBytes) parts[parts.length - 1] = Buffer.concat([last, part]);
    else parts.push(part);
  };
  let from = 0;
  for (const { span, replacement } of [...splices].sort((a, b) => a.span.start - b.span.start)) {
    add(bytes.subarray(from, span.start));
    add(Buffer.from(replacement));
    from = span.end;
  }
  add(bytes.subarray(from));
  return parts;
}

/**
 * Creates a splice that sets a member to the JSON text `json`. A member that doesn't exist yet is inserted at the start
 * of the object.
 */
export function setMember(spans: BodySpans, key: string, json: string): Splice {
  const member = spans.members.get(key);
  if (member) return { span: member.value, replacement: json };
  const at = spans.object.start + 1;
  const text = `${JSON.stringify(key)}:${json}`;
  return { span: { start: at, end: at }, replacement: spans.isEmpty ? text : `${text},` };
}

/**
 * Creates splices that remove elements from an array. A run of adjacent elements is removed by a single splice, which
 * includes one of the commas next to it.
 */
export function cutElements(elements: readonly Span[], isCut: readonly boolean[]): Splice[] {
  const splices: Splice[] = [];
  for (let first = 0; first < elements.length; first += 1) {
    if (!isCut[first]) continue;
    let last = first;
    while (isCut[last + 1]) last += 1;
    const next = elements[last + 1];
    const start = next === undefined ? (elements[first - 1]?.end ?? elements[first]?.start) : elements[first]?.start;
    const end = next?.start ?? elements[last]?.end;
    if (start !== undefined && end !== undefined) splices.push({ span: { start, end }, replacement: '' });
    first = last;
  }
  return splices;
}
