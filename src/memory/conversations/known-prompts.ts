/**
 * Recognizes the parts of a prompt that an earlier prompt of the project also contained, by the SHA-256 of their bytes.
 * Agents send their whole history with each call, and only the end of it is new. We don't scan or search known parts
 * again, and the prompt reader takes their messages from the cached history. None of these caches contain any text.
 */
import { createHash, type Hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { LRUCache } from 'lru-cache';
import { isPromptRoute, type TextRoute } from '../../core/call.ts';
import { characters } from '../../core/json/characters.ts';
import type { BodySpans, SkipMember } from '../../core/json/spans.ts';
import { JsonSyntaxError, skipElements, skipSpace, skipValue } from '../../core/json/syntax.ts';
import { largeBytes } from '../../core/low-priority-thread.ts';
import { bodyKeys } from '../../dialects/json/body-members.ts';
import { type KnownRegion, type References, rememberRegions } from '../../dialects/json/known-regions.ts';
import { scanJson } from '../../dialects/json/scan-body.ts';
import { promptMembers } from '../../dialects/prompt/prompt.ts';
import { findReferences } from '../../dialects/routes/outside-input.ts';
import { countImageParts } from '../../dialects/routes/request-features.ts';
import type { ChainPart, ExtraPart } from './chain.ts';
import type { PlacedExtra } from './masked-prompt.ts';
import { digestOf, findBeginning, type ListBeginning } from './prompt-pieces.ts';

/** The maximum number of messages and extras in all cached histories. Each takes about 500 bytes. */
const maxLinks = 60_000;
/** Each takes about a kilobyte. */
const maxLists = 5_000;
/** Each takes about 300 bytes. */
const maxValues = 10_000;
/** Shorter values are faster to scan than to look up. */
const minValueBytes = 1_024;
const minBodyBytes = 8_192;
/** We look up values by their first bytes. */
const headBytes = 64;
/** The maximum number of values with the same first bytes, such as the tools of different versions of an agent. */
const maxAlike = 16;
const sampleBytes = 256;
/**
 * How many ends of a history we cache, one after each message. We need several because clients change the last
 * messages, e.g. to mark them for the vendor's cache or to edit the last question.
 */
const maxEnds = 8;

/**
 * A prefix of a list of messages that ends after a message. `bytes` counts from the first message that isn't a system
 * message.
 */
export interface ListEnd {
  readonly bytes: number;
  readonly digest: string;
}

/** The results of searching some bytes of a body. */
interface Found {
  readonly images: number;
  readonly references: References;
}

interface SearchedEnd extends ListEnd {
  /** Null until the end is recognized for the first time. */
  found: Found | null;
}

interface MessageList {
  /** All requests of a session have the same key. */
  readonly key: string;
  /** In ascending order of length. */
  readonly ends: readonly SearchedEnd[];
}

/** Counts what the first `bytes` of a list contain. */
export interface HistoryEnd extends ListEnd {
  readonly messages: number;
  readonly parts: number;
  readonly extras: number;
  readonly context: number;
}

/** The contents of a list of messages, from the first message that isn't a system message. */
export interface History {
  readonly parts: readonly ChainPart[];
  readonly extras: readonly ExtraPart[];
  /** System messages that precede the first message. */
  readonly context: readonly PlacedExtra[];
  /** In ascending order of length. */
  readonly ends: readonly HistoryEnd[];
}

/** What we already know about the list in a body. */
export interface Recognized {
  /** The key of the list's history. Null if the list has too few messages. */
  readonly key: string | null;
  readonly ends: readonly ListEnd[];
  readonly known: { readonly history: History; readonly end: HistoryEnd } | null;
}

export const nothingKnown: Recognized = { key: null, ends: [], known: null };

/** A tools list, a system prompt or a long message. */
interface KnownValue {
  readonly bytes: number;
  /**
   * A checksum of bytes in the middle. It tells most values with the same beginning apart without hashing all of them.
   */
  readonly sample: number;
  readonly digest: string;
  /** Null until the value is recognized for the first time. */
  found: Found | null;
}

export type KnownPrompts = ReturnType<typeof createKnownPrompts>;

export function createKnownPrompts() {
  const histories = new LRUCache<string, History>({
    maxSize: maxLinks,
    sizeCalculation: ({ parts, extras }) => 1 + parts.length + extras.length,
  });
  const values = new LRUCache<string, readonly KnownValue[]>({ maxSize: maxValues, sizeCalculation: (alike) => alike.length });
  const lists = new LRUCache<string, readonly SearchedEnd[]>({ max: maxLists });
  const listOf = new WeakMap<Buffer, MessageList>();

  /** Returns where the value at `at` ends. If we know the value, it's added to `regions`. */
  const skipKnown = (projectId: string, body: Buffer, at: number, regions: KnownRegion[]): number => {
    if (!isDelimited(body, at)) return skipValue(body, at);
    const key = `${projectId} ${digestOf(body, { start: at, end: at + headBytes })}`;
    const alike = values.get(key) ?? [];
    const known = alike.find(
      ({ bytes, sample, digest }) => sample === sampleOf(body, at, bytes) && digest === digestOf(body, { start: at, end: at + bytes }),
    );
    if (known) {
      const end = at + known.bytes;
      known.found ??= search(body.subarray(at, end));
      regions.push({ start: at, end, isValue: true, ...known.found });
      return end;
    }
    const end = skipValue(body, at);
    if (end - at < minValueBytes) return end;
    const digest = digestOf(body, { start: at, end });
    values.set(key, [{ bytes: end - at, sample: sampleOf(body, at, end - at), digest, found: null }, ...alike.slice(0, maxAlike - 1)]);
    return end;
  };

  /**
   * Scans the list that starts with `beginning`, or returns null if it has too few messages. Throws JsonSyntaxError.
   */
  const scanList = (scope: string, body: Buffer, { start, anchor, first, end }: ListBeginning): ScannedList | null => {
    if (anchor === null) return null;
    const key = `${scope} ${digestOf(body, anchor)}`;
    const before = lists.get(key) ?? [];
    const { known, digest } = findEnd(body, start, before);
    const { messageEnds, listEnd } = scanMessages(body, known ? start + known.bytes : end);
    const added = [...(known ? [] : first.map((message) => message.end)), ...messageEnds];
    const ends = known ? before.slice(0, before.indexOf(known) + 1) : [];
    ends.push(...addDigests(body, start, { digest, known }, added.slice(-maxEnds)));
    return { key, ends: ends.slice(-maxEnds), known: known && { end: known, found: searchUntil(body, start, before, known) }, listEnd };
  };

  return {
    /** Finds the members of a request's body without scanning known parts of the prompt. Throws `bad_json`. */
    scan(projectId: string, route: TextRoute, body: Buffer): BodySpans {
      if (!isPromptRoute(route) || body.length < minBodyBytes || body.length >= largeBytes) return scanJson(body, bodyKeys);
      const { list, system } = promptMembers[route];
      const regions: KnownRegion[] = [];
      let scanned: ScannedList | null = null;
      const skip: SkipMember = (key, at) => {
        if (key === 'tools' || key === system) return skipKnown(projectId, body, at, regions);
        if (key !== list || scanned) return null;
        const inList: KnownRegion[] = [];
        const beginning = findBeginning(body, at, (start) => skipKnown(projectId, body, start, inList));
        if (beginning === null) return null;
        const { start, end } = beginning;
        scanned = scanList(`${projectId} ${route}`, body, beginning);
        const known = scanned?.known;
        regions.push(...(known ? inList.filter((region) => region.end <= start) : inList));
        if (known) regions.push({ start, end: start + known.end.bytes, isValue: false, ...known.found });
        return scanned?.listEnd ?? skipElements(body, end);
      };
      const spans = scanJson(body, bodyKeys, skip);
      rememberRegions(body, regions);
      remember(body, scanned);
      return spans;
    },
    /** Looks up the cached history of the session that the body belongs to. The body must be valid JSON. */
    recognize(scope: string, body: Buffer, beginning: ListBeginning): Recognized {
      const scanned = listOf.get(body) ?? remember(body, scanList(scope, body, beginning));
      if (scanned === null) return nothingKnown;
      const { key, ends } = scanned;
      const history = histories.get(key);
      const isKnown = ({ bytes, digest }: ListEnd): boolean =>
        ends.some((end) => end.bytes === bytes && end.digest === digest) && body[skipSpace(body, beginning.start + bytes)] === comma;
      const end = history?.ends.findLast(isKnown);
      return { key, ends, known: history && end ? { history, end } : null };
    },
    addHistory(key: string, history: History): void {
      histories.set(key, history);
    },
  };

  function remember(body: Buffer, scanned: ScannedList | null): MessageList | null {
    if (scanned === null) return null;
    const { key, ends } = scanned;
    lists.set(key, ends);
    listOf.set(body, { key, ends });
    return { key, ends };
  }
}

interface ScannedList extends MessageList {
  readonly known: { readonly end: SearchedEnd; readonly found: Found } | null;
  readonly listEnd: number;
}

/**
 * Finds the longest of `ends` that also occurs in the list at `start`. `digest` has consumed the bytes up to that end.
 */
function findEnd(body: Buffer, start: number, ends: readonly SearchedEnd[]): { readonly known: SearchedEnd | null; readonly digest: Hash } {
  const digest = createHash('sha256');
  let known: SearchedEnd | null = null;
  let until = digest.copy();
  for (const end of ends) {
    const at = start + end.bytes;
    if (at >= body.length) break;
    digest.update(body.subarray(start + (known?.bytes ?? 0), at));
    const next = digest.copy();
    if (digest.copy().digest('base64') !== end.digest) break;
    known = end;
    until = next;
  }
  return { known, digest: until };
}

/** Scans the rest of a list from `at`, where a message ends. */
function scanMessages(body: Buffer, at: number): { readonly messageEnds: readonly number[]; readonly listEnd: number } {
  const messageEnds: number[] = [];
  for (let end = at; ; ) {
    const next = skipSpace(body, end);
    if (body[next] === closeBracket) return { messageEnds, listEnd: next + 1 };
    if (body[next] !== comma) throw new JsonSyntaxError('expected a comma or closing bracket', next);
    end = skipValue(body, skipSpace(body, next + 1));
    messageEnds.push(end);
  }
}

/** Searches the bytes up to `end`, except those that we searched for an earlier end. */
function searchUntil(body: Buffer, start: number, ends: readonly SearchedEnd[], end: SearchedEnd): Found {
  if (end.found === null) {
    const searched = ends.findLast(({ bytes, found }) => found !== null && bytes < end.bytes);
    const added = search(body.subarray(start + (searched?.bytes ?? 0), start + end.bytes));
    end.found = searched?.found ? join(searched.found, added) : added;
  }
  return end.found;
}

const { closeBracket, comma, openBrace, openBracket, quote } = characters;

/**
 * Reports whether the value at `at` has a closing delimiter. Only then do equal bytes guarantee that we've matched the
 * whole value.
 */
function isDelimited(body: Buffer, at: number): boolean {
  const first = body[at];
  return first === quote || first === openBrace || first === openBracket;
}

function sampleOf(body: Buffer, at: number, bytes: number): number {
  const middle = at + Math.floor(bytes / 2);
  return crc32(body.subarray(middle, middle + sampleBytes));
}

/** Hashes the list up to each of these offsets. `digest` has already consumed the bytes up to the known end. */
function addDigests(
  body: Buffer,
  start: number,
  { digest, known }: { readonly digest: Hash; readonly known: ListEnd | null },
  offsets: readonly number[],
): SearchedEnd[] {
  let hashed = start + (known?.bytes ?? 0);
  return offsets.map((end) => {
    digest.update(body.subarray(hashed, end));
    hashed = end;
    return { bytes: end - start, digest: digest.copy().digest('base64'), found: null };
  });
}

function search(bytes: Buffer): Found {
  return { images: countImageParts(bytes), references: findReferences(bytes) };
}

function join(one: Found, other: Found): Found {
  const { references: a } = one;
  const { references: b } = other;
  return {
    images: one.images + other.images,
    references: {
      hasTypes: a.hasTypes || b.hasTypes,
      hasReference: a.hasReference || b.hasReference,
      hasItemById: a.hasItemById || b.hasItemById,
      hasDocument: a.hasDocument || b.hasDocument,
      hasDocumentSource: a.hasDocumentSource || b.hasDocumentSource,
    },
  };
}
