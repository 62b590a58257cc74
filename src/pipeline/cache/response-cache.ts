/**
 * The response cache for chat and messages. If a project repeats a request, we serve the response from memory, without
 * calling a vendor or using quota. Streamed and plain calls share an entry if it can be converted between the formats
 * without loss. If it can't, there's one entry for each format.
 *
 * Calls that ask for sampling get a new response each time, unless the project's settings allow us to cache them too.
 * See docs/architecture/response-cache.md.
 */
import { LRUCache } from 'lru-cache';
import { type Call, type Dialect, isDialect } from '../../core/call.ts';
import type { Span } from '../../core/json/spans.ts';
import { createSseParser, type SseEvent } from '../../core/sse.ts';
import { hashSubjectHex } from '../../core/subject.ts';
import type { Clock } from '../../core/time.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { asksForSampling } from '../../dialects/json/body-members.ts';
import { jsonToStream, streamToJson } from '../../dialects/routes/response-formats.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import type { RequestChanges } from '../../dialects/translate/request-changes.ts';
import { type CacheKeyInput, computeCacheKey } from './cache-key.ts';
import { type CachedResponse, createResponseStore, type ResponseFormat, subjectKey } from './lru-store.ts';

export interface CacheSettings {
  readonly enabled: boolean;
  readonly ttlMs: number;
  /** True if we also cache responses to calls that ask for random samples. */
  readonly sampled: boolean;
}

/** A cached response, already converted to the format that the caller asked for. */
export interface CacheHit {
  readonly bytes: Buffer;
  readonly contentType: string;
  readonly model: string;
  readonly changes?: RequestChanges | null | undefined;
  readonly summary: ResponseSummary;
  /** Events that only contain usage, which we skip if the caller didn't ask for usage. */
  readonly usage: readonly Span[];
}

type ResponseSource = Pick<CachedResponse, 'contentType' | 'model' | 'changes'>;

/** Collects the bytes that are sent to the caller. Nothing is cached until you call `commit`. */
export interface CacheWriter {
  append(bytes: Buffer): void;
  /** Only call this once the response is complete and known to be successful. */
  commit(source: ResponseSource): void;
}

/**
 * Pass `candidates` in the configured order and not in the planner's order, which moves unhealthy vendors to the end.
 * Otherwise the cache key would change with the vendors' health.
 */
interface LookupRequest extends CacheKeyInput {
  /** The call as it is after recall, which may have added memories to its body. */
  readonly call: Call;
  readonly recalledSubjects: readonly string[];
  readonly settings: CacheSettings;
}

export interface ResponseCache {
  /** `writer` is null if the response to this call can't be cached. */
  lookup(request: LookupRequest): { readonly hit: CacheHit | null; readonly writer: CacheWriter | null };
  /**
   * Deletes all responses about a subject and prevents calls in flight from caching theirs. Returns how many entries
   * were deleted.
   */
  invalidateSubject(projectId: string, subjectSha256: string): number;
  /** For tests. `evicted` counts the entries that were deleted to stay within `maxBytes`. */
  state(): Readonly<Record<'entries' | 'bytes' | 'hits' | 'misses' | 'stored' | 'evicted', number>>;
}

interface ResponseCacheOptions {
  readonly clock: Clock;
  readonly maxBytes?: number;
  readonly maxResponseBytes?: number;
}

const mebibyte = 1024 * 1024;

export function createResponseCache(options: ResponseCacheOptions): ResponseCache {
  const { clock, maxBytes = 256 * mebibyte, maxResponseBytes = mebibyte } = options;
  const store = createResponseStore(maxBytes);
  const invalidations = createInvalidationLog();
  let hits = 0;
  let misses = 0;
  let stored = 0;

  const find = (key: string, format: ResponseFormat, dialect: Dialect, { call, settings }: LookupRequest): CacheHit | null => {
    const now = clock.now();
    const { maxAgeMs = Number.POSITIVE_INFINITY } = call.cache;
    const { subject } = call.memory;
    for (const storedFormat of [format, otherFormat(format)]) {
      const entryKey = `${key} ${storedFormat}`;
      const response = store.get(entryKey, now, settings.ttlMs);
      // An entry that is too old for this caller's `max-age` may still be fresh enough for other callers.
      const hit = response && now < response.storedAt + maxAgeMs && render(response, { dialect, storedFormat, format });
      if (!hit) continue;
      store.touch(entryKey);
      if (subject !== null) store.addSubject(entryKey, hashSubjectHex(subject));
      return hit;
    }
    return null;
  };

  return {
    lookup(request) {
      const { call, recalledSubjects, settings } = request;
      const { route, caller, cache, stream, memory, startedAt } = call;
      const isUsed = settings.enabled && (cache.reads || cache.writes);
      if (!isUsed || !isDialect(route)) return { hit: null, writer: null };
      if (!settings.sampled && asksForSampling(call.body, call.spans)) return { hit: null, writer: null };
      const { projectId } = caller;
      const key = computeCacheKey(projectId, request);
      const format: ResponseFormat = stream ? 'stream' : 'plain';
      const hit = cache.reads ? find(key, format, route, request) : null;
      if (hit) hits += 1;
      else if (cache.reads) misses += 1;
      if (hit || !cache.writes) return { hit, writer: null };
      const subjects = [...new Set([...(memory.subject === null ? [] : [memory.subject]), ...recalledSubjects])].map(hashSubjectHex);
      const storeResponse = (bytes: Buffer, source: ResponseSource): void => {
        if (invalidations.isInvalidated(projectId, subjects, startedAt)) return;
        const storedAt = clock.now();
        stored += 1;
        // A caller that bypasses the cache or sets a `max-age` wants a fresh response, so we also drop the entry for
        // the other format (streamed or plain).
        if (!cache.reads || cache.maxAgeMs !== undefined) store.delete(`${key} ${otherFormat(format)}`);
        store.set(`${key} ${format}`, { bytes, ...source, projectId, subjects, storedAt, expiresAt: storedAt + settings.ttlMs });
      };
      return { hit: null, writer: createCacheWriter(maxResponseBytes, storeResponse) };
    },
    invalidateSubject(projectId, subjectSha256) {
      invalidations.record(projectId, subjectSha256, clock.now());
      return store.deleteSubject(projectId, subjectSha256);
    },
    state: () => ({ ...store.stats(), hits, misses, stored }),
  };
}

function otherFormat(format: ResponseFormat): ResponseFormat {
  return format === 'plain' ? 'stream' : 'plain';
}

/** Returns null if the response can't be converted between its plain and streamed forms without losing something. */
function render(
  response: CachedResponse,
  { dialect, storedFormat, format }: { dialect: Dialect; storedFormat: ResponseFormat; format: ResponseFormat },
): CacheHit | null {
  if (storedFormat === format) {
    const { bytes, contentType, model, changes } = response;
    const reading = readOnce(response, dialect, format);
    return reading && { bytes, contentType, model, changes, ...reading };
  }
  const text = format === 'plain' ? streamToJson(dialect, response.bytes) : jsonToStream(dialect, response.bytes);
  if (text === null) return null;
  const bytes = Buffer.from(text);
  const reading = readBytes(bytes, dialect, format);
  const { model, changes } = response;
  return reading && { bytes, contentType: format === 'plain' ? 'application/json' : 'text/event-stream', model, changes, ...reading };
}

type Reading = Pick<CacheHit, 'summary' | 'usage'>;

/**
 * Caches the parsed form of each entry once it has been served. The size of the entry already includes the memory that
 * this takes (see `sizeCalculation`).
 */
const readings = new WeakMap<Buffer, Reading>();

function readOnce(response: CachedResponse, dialect: Dialect, format: ResponseFormat): Reading | null {
  const known = readings.get(response.bytes);
  if (known) return known;
  const reading = readBytes(response.bytes, dialect, format);
  if (reading) readings.set(response.bytes, reading);
  return reading;
}

function readBytes(bytes: Buffer, dialect: Dialect, format: ResponseFormat): Reading | null {
  return format === 'plain' ? readPlain(dialect, bytes) : readStream(dialect, bytes);
}

function readPlain(dialect: Dialect, bytes: Buffer): Reading | null {
  const summary = routeCodecs[dialect].parseResponse(bytes);
  return summary && { summary, usage: [] };
}

function readStream(dialect: Dialect, bytes: Buffer): Reading {
  const parser = createSseParser();
  const reader = routeCodecs[dialect].createStreamReader();
  const usage: Span[] = [];
  let offset = 0;
  const readEvent = (event: SseEvent): void => {
    if (reader.read(event) === 'usage') usage.push({ start: offset + event.start, end: offset + event.end });
  };
  offset = parser.scan(bytes, readEvent).length;
  // The last event of a stream may lack its final blank line.
  parser.scanEnd(readEvent);
  return { summary: reader.summary(), usage };
}

/** Buffers a response. The bytes are copied, because chunks may be views of much larger buffers. */
function createCacheWriter(maxBytes: number, storeResponse: (bytes: Buffer, source: ResponseSource) => void): CacheWriter {
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
        // Don't use the shared pool for small buffers, because the cached response would keep the whole pool buffer in
        // memory.
        const grown = Buffer.allocUnsafeSlow(Math.min(maxBytes, Math.max(needed, buffer.length * 2)));
        buffer.copy(grown, 0, 0, length);
        buffer = grown;
      }
      bytes.copy(buffer, length);
      length = needed;
    },
    commit(source) {
      if (isTooLarge) return;
      const bytes = length === buffer.length ? buffer : Buffer.allocUnsafeSlow(length);
      if (bytes !== buffer) buffer.copy(bytes, 0, 0, length);
      storeResponse(bytes, source);
    },
  };
}

/**
 * Remembers when the data of a subject was erased. If a call began before an erasure and ends after it, we don't cache
 * its response. The log has a limited size and evicts the oldest entries first. After that we no longer know whose data
 * was erased, so we don't cache the response of any call that began earlier and names a subject. Subjects are SHA-256
 * hashes.
 */
function createInvalidationLog() {
  let evictedUntil = Number.NEGATIVE_INFINITY;
  const invalidatedAt = new LRUCache<string, number>({
    max: 10_000,
    dispose: (at, _key, reason) => {
      if (reason === 'evict') evictedUntil = at;
    },
  });

  return {
    record(projectId: string, subject: string, now: number): void {
      invalidatedAt.set(subjectKey(projectId, subject), now);
    },
    isInvalidated: (projectId: string, subjects: readonly string[], startedAt: number): boolean =>
      subjects.some((subject) => (invalidatedAt.peek(subjectKey(projectId, subject)) ?? evictedUntil) >= startedAt),
  };
}
