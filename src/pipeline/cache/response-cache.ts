/**
 * The response cache of chat and messages (decisions 7, shapes 17): the same question of the same project is answered from memory,
 * without a vendor and without a slot. Streamed and plain calls share what is kept: the bytes as they went to the caller come back as they
 * were, and told in the other form where nothing is lost by it; where something would be, each form is kept for itself.
 *
 * An answer that random sampling made is kept like any other: who wants a new one says `cache-control: no-cache`.
 */
import { createHash } from 'node:crypto';
import type { Call, Candidate, Dialect } from '../../core/call.ts';
import { createSseParser } from '../../core/sse.ts';
import type { Clock } from '../../core/time.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { jsonToStream, streamToJson } from '../../dialects/routes/response-formats.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import { computeCacheKey } from './cache-key.ts';
import { createInvalidationLog } from './invalidation-log.ts';
import { type CachedResponse, createResponseStore, type ResponseFormat } from './lru-store.ts';

/** What a project says of its cache. */
export interface CacheSettings {
  readonly enabled: boolean;
  readonly ttlMs: number;
}

/** A kept answer in the form that the call asks for. */
export interface CacheHit {
  readonly bytes: Buffer;
  readonly contentType: string;
  readonly model: string;
  readonly reading: ResponseSummary;
}

/** Takes down what goes to the caller. Without `keep` nothing of it stays. */
export interface CacheWriter {
  append(bytes: Buffer): void;
  /** The answer is whole and good. */
  commit(answer: { readonly contentType: string; readonly model: string }): void;
}

export interface CacheLookup {
  readonly hit: CacheHit | null;
  /** Null when the answer of this call is not to be kept. */
  readonly writer: CacheWriter | null;
}

export interface LookupRequest {
  /** With the body as recall left it. */
  readonly call: Call;
  /** Subjects of what was recalled. */
  readonly recalledSubjects: readonly string[];
  readonly settings: CacheSettings;
  /** In the order that they have while all vendors are well: what is kept must be found while one is ill. */
  readonly candidates: readonly Candidate[];
}

export interface ResponseCache {
  lookup(request: LookupRequest): CacheLookup;
  /** Erasure: forgets what was kept of calls about a subject, also of those under way now; returns how many answers went. */
  invalidateSubject(projectId: string, subjectSha256: string): number;
  invalidateProject(projectId: string): number;
  /** For metrics. */
  state(): ResponseCacheState;
}

export interface ResponseCacheState {
  readonly entries: number;
  readonly bytes: number;
  readonly hits: number;
  readonly misses: number;
  readonly stored: number;
  /** Gone to make room. */
  readonly evicted: number;
}

export interface ResponseCacheOptions {
  readonly clock: Clock;
  /** Of the configuration in force. */
  readonly revision: () => number;
  readonly maxBytes?: number;
  readonly maxResponseBytes?: number;
}

const mebibyte = 1024 * 1024;
const notCached: CacheLookup = { hit: null, writer: null };

interface EntryRequest {
  readonly dialect: Dialect;
  readonly format: ResponseFormat;
  readonly ttlMs: number;
  readonly maxAgeMs: number;
}

export function createResponseCache(options: ResponseCacheOptions): ResponseCache {
  const { clock, revision, maxBytes = 256 * mebibyte, maxResponseBytes = mebibyte } = options;
  const store = createResponseStore(maxBytes);
  const invalidations = createInvalidationLog();
  let hits = 0;
  let misses = 0;
  let stored = 0;

  const find = (key: string, { dialect, format, ttlMs, maxAgeMs }: EntryRequest): CacheHit | null => {
    const now = clock.now();
    for (const storedFormat of [format, otherFormat(format)]) {
      const entryKey = entryKeyFor(key, storedFormat);
      const response = store.get(entryKey, now, ttlMs);
      // One that is too old for this caller stays for the others.
      const hit = response && now < response.storedAt + maxAgeMs && render(response, { dialect, storedFormat, format });
      if (!hit) continue;
      store.touch(entryKey);
      return hit;
    }
    return null;
  };

  return {
    lookup({ call, recalledSubjects, settings, candidates }) {
      const { route, caller, cache, stream, memory, startedAt } = call;
      const isUsed = settings.enabled && (cache.reads || cache.writes);
      if (!isUsed || (route !== 'chat' && route !== 'messages')) return notCached;
      const { projectId } = caller;
      const key = computeCacheKey(projectId, { call, candidates, revision: revision() });
      const format: ResponseFormat = stream ? 'stream' : 'plain';
      const { maxAgeMs = Number.POSITIVE_INFINITY } = cache;
      const hit = cache.reads ? find(key, { dialect: route, format, ttlMs: settings.ttlMs, maxAgeMs }) : null;
      if (hit) hits += 1;
      else if (cache.reads) misses += 1;
      if (hit || !cache.writes) return { hit, writer: null };
      const subjects = [...new Set([...(memory.subject === null ? [] : [memory.subject]), ...recalledSubjects])].map(hashSubject);
      const storeResponse = (bytes: Buffer, response: { contentType: string; model: string }): void => {
        if (invalidations.isInvalidated(projectId, subjects, startedAt)) return;
        const storedAt = clock.now();
        stored += 1;
        // Who would have no kept answer has a newer one than the other form tells.
        if (!cache.reads || cache.maxAgeMs !== undefined) store.delete(entryKeyFor(key, otherFormat(format)));
        store.set(entryKeyFor(key, format), { bytes, ...response, projectId, subjects, storedAt, expiresAt: storedAt + settings.ttlMs });
      };
      return { hit: null, writer: createCacheWriter(maxResponseBytes, storeResponse) };
    },
    invalidateSubject(projectId, subjectSha256) {
      invalidations.record(projectId, subjectSha256, clock.now());
      return store.deleteWhere((response) => response.projectId === projectId && response.subjects.includes(subjectSha256));
    },
    invalidateProject(projectId) {
      invalidations.record(projectId, null, clock.now());
      return store.deleteWhere((response) => response.projectId === projectId);
    },
    state: () => ({ ...store.stats(), hits, misses, stored }),
  };
}

function entryKeyFor(key: string, format: ResponseFormat): string {
  return `${key} ${format}`;
}

function otherFormat(format: ResponseFormat): ResponseFormat {
  return format === 'plain' ? 'stream' : 'plain';
}

function hashSubject(subject: string): string {
  return createHash('sha256').update(subject, 'utf8').digest('hex');
}

/** Null when the answer cannot be told in this form. */
function render(
  response: CachedResponse,
  { dialect, storedFormat, format }: { dialect: Dialect; storedFormat: ResponseFormat; format: ResponseFormat },
): CacheHit | null {
  const { model } = response;
  if (storedFormat === format) {
    const summary = summarize(dialect, format, response.bytes);
    return summary && { bytes: response.bytes, contentType: response.contentType, model, reading: summary };
  }
  const text = format === 'plain' ? streamToJson(dialect, response.bytes) : jsonToStream(dialect, response.bytes);
  if (text === null) return null;
  const bytes = Buffer.from(text);
  const summary = summarize(dialect, format, bytes);
  return summary && { bytes, contentType: format === 'plain' ? 'application/json' : 'text/event-stream', model, reading: summary };
}

function summarize(dialect: Dialect, format: ResponseFormat, bytes: Buffer): ResponseSummary | null {
  const codec = routeCodecs[dialect];
  if (format === 'plain') return codec.parseResponse(bytes);
  const parser = createSseParser();
  const reader = codec.createStreamReader();
  for (const event of [...parser.push(bytes).events, ...parser.end().events]) reader.read(event);
  return reader.summary();
}

/** Bytes are copied into a buffer of its own that grows with them: pieces of a stream may be views of large chunks. */
function createCacheWriter(
  maxBytes: number,
  keep: (bytes: Buffer, response: { readonly contentType: string; readonly model: string }) => void,
): CacheWriter {
  let buffer = Buffer.alloc(0);
  let length = 0;
  let isTooLarge = false;
  return {
    append(bytes) {
      if (isTooLarge) return;
      const needed = length + bytes.length;
      isTooLarge = needed > maxBytes;
      if (isTooLarge) {
        buffer = Buffer.alloc(0);
        return;
      }
      if (needed > buffer.length) {
        // Not of the pool that small buffers share: it would be held with the answer.
        const grown = Buffer.allocUnsafeSlow(Math.min(maxBytes, Math.max(needed, buffer.length * 2)));
        buffer.copy(grown, 0, 0, length);
        buffer = grown;
      }
      bytes.copy(buffer, length);
      length = needed;
    },
    commit(response) {
      if (isTooLarge) return;
      const bytes = length === buffer.length ? buffer : Buffer.allocUnsafeSlow(length);
      if (bytes !== buffer) buffer.copy(bytes, 0, 0, length);
      keep(bytes, response);
    },
  };
}
