/**
 * Recognizes the parts of a prompt that an earlier prompt of the project had too, by the SHA-256 of their bytes: an agent sends its whole history
 * with each call, and only the end of it is new. Known parts are not scanned or searched again, and the prompt reader takes their messages from
 * the history. Nothing of their text is kept.
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

/** Messages and extras of all histories, about 500 bytes each. */
const maxLinks = 60_000;
/** About a kilobyte each. */
const maxLists = 5_000;
/** About 300 bytes each. */
const maxValues = 10_000;
/** To scan a shorter value takes less time than to look it up. */
const minValueBytes = 1_024;
const minBodyBytes = 8_192;
/** Values are looked up by this many of their first bytes. */
const headBytes = 64;
/** Values that begin alike, such as the tools of different versions of an agent. */
const maxAlike = 16;
const sampleBytes = 256;
/**
 * Ends of the history that are remembered, one after each message. Clients change the last messages: they mark them for the vendor's cache, and edit
 * the last question.
 */
const maxEnds = 8;

/** The first `bytes` of a list of messages, at whose end a message ends. They are counted from the first message that is no system message. */
export interface ListEnd {
  readonly bytes: number;
  readonly digest: string;
}

/** What a search of bytes has found. */
interface Found {
  readonly images: number;
  readonly references: References;
}

interface SearchedEnd extends ListEnd {
  /** Searched when the end is recognized for the first time. */
  found: Found | null;
}

/** The list of messages of a body. */
interface MessageList {
  /** The same for all requests of a session. */
  readonly key: string;
  /** The longest is the last. */
  readonly ends: readonly SearchedEnd[];
}

/** What the first `bytes` of a list consist of. */
export interface HistoryEnd extends ListEnd {
  readonly messages: number;
  readonly parts: number;
  readonly extras: number;
  readonly context: number;
}

/** What a list of messages consists of, from its first message that is no system message. */
export interface History {
  readonly parts: readonly ChainPart[];
  readonly extras: readonly ExtraPart[];
  /** System messages before the first message. */
  readonly context: readonly PlacedExtra[];
  /** The longest is the last. */
  readonly ends: readonly HistoryEnd[];
}

/** What is known of a body's list. */
export interface Recognized {
  /** Of its history. Null if there are too few messages. */
  readonly key: string | null;
  readonly ends: readonly ListEnd[];
  readonly known: { readonly history: History; readonly end: HistoryEnd } | null;
}

export const nothingKnown: Recognized = { key: null, ends: [], known: null };

/** A tools list, a system prompt, or a long message. */
interface KnownValue {
  readonly bytes: number;
  /** Of bytes in the middle, by which most values that begin alike are told apart. */
  readonly sample: number;
  readonly digest: string;
  /** Searched when the value is recognized for the first time. */
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

  /** End of the value at `at`. If it is known, it is added to `regions`. */
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

  /** Scans the list that has this beginning. Null if the list has too few messages. Throws JsonSyntaxError. */
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
    /** Positions of the members of a request's body. Known parts of a prompt are not scanned. Throws `bad_json`. */
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
    /** What the history of a body's session says about its list. The syntax of the body has been checked before. */
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

/** The longest of `ends` that the list at `start` has too, with the digest until there. */
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

/** Scans the rest of a list in which a message ends at `at`. */
function scanMessages(body: Buffer, at: number): { readonly messageEnds: readonly number[]; readonly listEnd: number } {
  const messageEnds: number[] = [];
  for (let end = at; ; ) {
    const next = skipSpace(body, end);
    if (body[next] === closeBracket) return { messageEnds, listEnd: next + 1 };
    if (body[next] !== comma) throw new JsonSyntaxError('a comma or closing bracket is expected', next);
    end = skipValue(body, skipSpace(body, next + 1));
    messageEnds.push(end);
  }
}

/** Searches what follows the last end that was searched. */
function searchUntil(body: Buffer, start: number, ends: readonly SearchedEnd[], end: SearchedEnd): Found {
  if (end.found === null) {
    const searched = ends.findLast(({ bytes, found }) => found !== null && bytes < end.bytes);
    const added = search(body.subarray(start + (searched?.bytes ?? 0), start + end.bytes));
    end.found = searched?.found ? join(searched.found, added) : added;
  }
  return end.found;
}

const { closeBracket, comma, openBrace, openBracket, quote } = characters;

/** Whether the value at `at` ends with a character of its own, so that equal bytes are the whole value. */
function isDelimited(body: Buffer, at: number): boolean {
  const first = body[at];
  return first === quote || first === openBrace || first === openBracket;
}

function sampleOf(body: Buffer, at: number, bytes: number): number {
  const middle = at + Math.floor(bytes / 2);
  return crc32(body.subarray(middle, middle + sampleBytes));
}

/** The ends at these offsets, with their digests. `digest` is that of the bytes until the known end. */
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
