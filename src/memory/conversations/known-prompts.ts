/**
 * Recognizes the parts of a prompt that were already in an earlier prompt of the project, by a fingerprint of their
 * bytes. Agents send their whole history with each call, and only the end of it is new. We don't scan or search known
 * parts again, and the prompt reader takes their messages from the cached history. None of these caches contain any
 * text.
 */
import { LRUCache } from 'lru-cache';
import { isPromptRoute, type TextRoute } from '../../core/call.ts';
import { characters } from '../../core/json/characters.ts';
import type { BodySpans, SkipMember, Span } from '../../core/json/spans.ts';
import { JsonSyntaxError, skipElements, skipSpace, skipValue } from '../../core/json/syntax.ts';
import { largeBytes } from '../../core/low-priority-thread.ts';
import { type RepeatedPart, rememberRepetition } from '../../core/repeated-parts.ts';
import { bodyKeys, scanJson } from '../../dialects/json/body-members.ts';
import { type KnownRegion, rememberRegions, rememberSpans } from '../../dialects/json/known-regions.ts';
import { promptMembers } from '../../dialects/prompt/prompt.ts';
import type { ChainPart, ExtraPart } from './chain.ts';
import { fingerprintOf } from './fingerprint.ts';
import { createKnownValues } from './known-values.ts';
import type { PlacedExtra } from './masked-prompt.ts';
import { findBeginning, type ListBeginning, type ScannedMessages } from './prompt-pieces.ts';
import { type Found, joinFound, searchPrompt } from './search-prompt.ts';

/** The maximum number of messages and extras in cached histories. Each of them takes about 500 bytes. */
const maxLinks = 60_000;
/** Limits the cached lists of messages, which take about two kilobytes each. */
const maxLists = 5_000;
const minBodyBytes = 8_192;
/**
 * For each history we cache up to this many prefixes. Clients change the last messages of a history, e.g. to mark them
 * for the vendor's cache or to edit the last question, but the shorter prefixes still match then.
 */
const maxEnds = 8;
/**
 * Hashing the whole prefix for every message would be slow. So we hash it once, as an anchor, and identify longer
 * prefixes by the anchor plus the fingerprint of the bytes that follow. After this many bytes we start a new anchor.
 */
const maxAddedBytes = 32_768;

/**
 * If a list has more messages than this, we don't remember where they end, because that could take up more memory than
 * the body itself.
 */
const maxMessageEnds = 1_500;

/**
 * The first messages of a list, not counting any leading system messages. We identify them by their length and
 * fingerprint.
 */
export interface ListEnd {
  readonly bytes: number;
  readonly fingerprint: string;
}

interface SearchedEnd extends ListEnd {
  /** The prefix to which `added` is appended (see `maxAddedBytes`). */
  readonly anchor: ListEnd;
  /** Fingerprint of the bytes between the end of the anchor and the end of the prefix. */
  readonly added: string;
  /**
   * What we found when we searched the prefix. Null until it occurs a second time, because most prefixes never come
   * back and we don't want to search those.
   */
  found: Found | null;
}

interface MessageList {
  /** Identifies the session of the client that sent the list. */
  readonly key: string;
  /** Shortest first. */
  readonly ends: readonly SearchedEnd[];
  readonly scanned: ScannedMessages;
}

/**
 * The end of a prefix of a history, and how much the prefix contains. `messages` counts entries of the request's list.
 * `parts`, `extras` and `context` count elements of these lists in `History`.
 */
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
  /** System messages that come before the first user or assistant message of this list. */
  readonly context: readonly PlacedExtra[];
  /** Shortest first. */
  readonly ends: readonly HistoryEnd[];
}

export interface Recognized {
  /** The key in the cache of histories. Null if the list is too short to be cached. */
  readonly key: string | null;
  readonly ends: readonly ListEnd[];
  readonly known: { readonly history: History; readonly end: HistoryEnd } | null;
  readonly scanned: ScannedMessages;
}

export const nothingKnown: Recognized = { key: null, ends: [], known: null, scanned: { from: 0, ends: [] } };

export type KnownPrompts = ReturnType<typeof createKnownPrompts>;

export function createKnownPrompts() {
  const histories = new LRUCache<string, History>({
    maxSize: maxLinks,
    sizeCalculation: ({ parts, extras }) => 1 + parts.length + extras.length,
  });
  const values = createKnownValues();
  const lists = new LRUCache<string, readonly SearchedEnd[]>({ max: maxLists });
  const listOf = new WeakMap<Buffer, MessageList>();

  /**
   * Scans a list of messages whose beginning we've already read. Returns null if the list has too few messages. Throws
   * JsonSyntaxError.
   */
  const scanList = (scope: string, body: Buffer, { start, anchor: session, first, end }: ListBeginning): ScannedList | null => {
    if (session === null) return null;
    const key = `${scope} ${fingerprintOf(body, session.start, session.end)}`;
    const before = lists.get(key) ?? [];
    const known = findEnd(body, start, before);
    const from = known ? start + known.bytes : end;
    const { messageEnds, listEnd } = scanMessages(body, from);
    const added = [...(known ? [] : first.map((message) => message.end)), ...messageEnds].slice(-maxEnds);
    const ends = known ? before.slice(0, before.indexOf(known) + 1) : [];
    const isNearAnchor = known && known.bytes - known.anchor.bytes <= maxAddedBytes;
    const base = isNearAnchor ? known.anchor : anchorAt(body, start, known?.bytes ?? (added[0] ?? start) - start);
    const knownTo = start + (known?.bytes ?? 0);
    // An earlier request had this prefix too, so the next one will probably repeat it together with the messages after
    // it. Search those messages now, so that we can skip them then.
    let found = known && searchUntil(body, start, before, known);
    let searchedTo = knownTo;
    for (const at of added) {
      if (found) found = joinFound(found, searchPrompt(body.subarray(searchedTo, at)));
      searchedTo = at;
      const fingerprint = fingerprintOf(body, start + base.bytes, at);
      ends.push({ bytes: at - start, fingerprint: `${base.fingerprint} ${fingerprint}`, anchor: base, added: fingerprint, found });
    }
    const searched = found && { start, end: searchedTo, newBytes: searchedTo - knownTo, ...found };
    const scanned = { from, ends: messageEnds.length > maxMessageEnds ? [] : messageEnds };
    return { key, ends: ends.slice(-maxEnds), scanned, searched, listEnd };
  };

  return {
    /** Finds the fields of a request body without scanning known parts of the prompt. Throws `bad_json`. */
    scan(projectId: string, route: TextRoute, body: Buffer): BodySpans {
      if (!isPromptRoute(route) || body.length < minBodyBytes || body.length >= largeBytes) return scanJson(body, bodyKeys);
      const { list, system } = promptMembers[route];
      const regions: KnownRegion[] = [];
      const parts: RepeatedPart[] = [];
      let scanned: ScannedList | null = null;
      let newInList = 0;
      const skip: SkipMember = (key, at) => {
        if (key === 'tools' || key === system) return values.skip(projectId, body, at, regions, parts);
        if (key !== list || scanned) return null;
        const inList: KnownRegion[] = [];
        const beginning = findBeginning(body, at, (start) => values.skip(projectId, body, start, inList, parts));
        if (beginning === null) return null;
        const { start, end } = beginning;
        scanned = scanList(`${projectId} ${route}`, body, beginning);
        for (const { bytes, fingerprint } of scanned?.ends ?? []) parts.push({ start, end: start + bytes, fingerprint });
        const searched = scanned?.searched;
        regions.push(...(searched ? inList.filter((region) => region.end <= start) : inList));
        if (searched) regions.push({ isValue: false, ...searched });
        newInList = searched?.newBytes ?? 0;
        return scanned?.listEnd ?? skipElements(body, end);
      };
      const spans = scanJson(body, bodyKeys, skip);
      rememberRegions(body, regions);
      rememberSpans(body, spans);
      const knownBytes = regions.reduce((sum, { start, end }) => sum + end - start, 0);
      rememberRepetition(body, { parts, newBytes: body.length - knownBytes + newInList });
      remember(body, scanned);
      return spans;
    },
    /**
     * Looks up the cached history of the session that the body belongs to. Only call this if the body is valid JSON.
     */
    recognize(scope: string, body: Buffer, beginning: ListBeginning): Recognized {
      const list = listOf.get(body) ?? remember(body, scanList(scope, body, beginning));
      if (list === null) return nothingKnown;
      const { key, ends, scanned } = list;
      const history = histories.get(key);
      const isKnown = ({ bytes, fingerprint }: ListEnd): boolean =>
        ends.some((end) => end.bytes === bytes && end.fingerprint === fingerprint) &&
        body[skipSpace(body, beginning.start + bytes)] === comma;
      const end = history?.ends.findLast(isKnown);
      return { key, ends, known: history && end ? { history, end } : null, scanned };
    },
    addHistory(key: string, history: History): void {
      histories.set(key, history);
    },
  };

  function remember(body: Buffer, list: ScannedList | null): MessageList | null {
    if (list === null) return null;
    const { key, ends, scanned } = list;
    lists.set(key, ends);
    const remembered = { key, ends, scanned };
    listOf.set(body, remembered);
    return remembered;
  }
}

interface ScannedList extends MessageList {
  /**
   * The part of the list that we've searched. `newBytes` says how much of it is new in this request. Null if no earlier
   * request had a list with the same beginning.
   */
  readonly searched: (Span & Found & { readonly newBytes: number }) | null;
  readonly listEnd: number;
}

function findEnd(body: Buffer, start: number, ends: readonly SearchedEnd[]): SearchedEnd | null {
  const anchors = new Map<number, string>();
  const hasAnchor = ({ bytes, fingerprint }: ListEnd): boolean => {
    const found = anchors.get(bytes) ?? anchorAt(body, start, bytes).fingerprint;
    anchors.set(bytes, found);
    return found === fingerprint;
  };
  const isSame = ({ bytes, anchor, added }: SearchedEnd): boolean =>
    start + bytes < body.length && hasAnchor(anchor) && added === fingerprintOf(body, start + anchor.bytes, start + bytes);
  return ends.findLast(isSame) ?? null;
}

function anchorAt(body: Buffer, start: number, bytes: number): ListEnd {
  return { bytes, fingerprint: fingerprintOf(body, start, start + bytes) };
}

const { closeBracket, comma } = characters;

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

function searchUntil(body: Buffer, start: number, ends: readonly SearchedEnd[], end: SearchedEnd): Found {
  if (end.found === null) {
    const searched = ends.findLast(({ bytes, found }) => found !== null && bytes < end.bytes);
    const added = searchPrompt(body.subarray(start + (searched?.bytes ?? 0), start + end.bytes));
    end.found = searched?.found ? joinFound(searched.found, added) : added;
  }
  return end.found;
}
