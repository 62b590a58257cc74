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
import type { AnswerReading } from '../../dialects/contract/route-codec.ts';
import { plainOf, streamOf } from '../../dialects/routes/response-formats.ts';
import { rulesOf } from '../../dialects/routes/route-codecs.ts';
import { cacheKeyOf } from './cache-key.ts';
import { createDropMarks } from './invalidation-log.ts';
import { type AnswerForm, createAnswerStore, type KeptAnswer } from './lru-store.ts';

/** What a project says of its cache. */
export interface CacheSettings {
  readonly enabled: boolean;
  readonly ttlMs: number;
}

/** A kept answer in the form that the call asks for. */
export interface Hit {
  readonly bytes: Buffer;
  readonly contentType: string;
  readonly model: string;
  readonly reading: AnswerReading;
}

/** Takes down what goes to the caller. Without `keep` nothing of it stays. */
export interface Recording {
  add(bytes: Buffer): void;
  /** The answer is whole and good. */
  keep(answer: { readonly contentType: string; readonly model: string }): void;
}

export interface CacheUse {
  readonly hit: Hit | null;
  /** Null when the answer of this call is not to be kept. */
  readonly recording: Recording | null;
}

export interface LookUp {
  /** With the body as recall left it. */
  readonly call: Call;
  /** Subjects of what was recalled. */
  readonly alsoAbout: readonly string[];
  readonly settings: CacheSettings;
  /** In the order that they have while all vendors are well: what is kept must be found while one is ill. */
  readonly candidates: readonly Candidate[];
}

export interface ResponseCache {
  lookUp(request: LookUp): CacheUse;
  /** Erasure: forgets what was kept of calls about a subject, also of those under way now; returns how many answers went. */
  dropSubject(projectId: string, subjectSha256: string): number;
  dropProject(projectId: string): number;
  /** For metrics. */
  state(): ResponseCacheState;
}

export interface ResponseCacheState {
  readonly entries: number;
  readonly bytes: number;
  readonly hits: number;
  readonly misses: number;
  readonly kept: number;
  /** Gone to make room. */
  readonly evicted: number;
}

export interface ResponseCacheOptions {
  readonly clock: Clock;
  /** Of the configuration in force. */
  readonly revision: () => number;
  readonly maxBytes?: number;
  readonly maxAnswerBytes?: number;
}

const mebibyte = 1024 * 1024;
const noUse: CacheUse = { hit: null, recording: null };

interface Wanted {
  readonly dialect: Dialect;
  readonly form: AnswerForm;
  readonly ttlMs: number;
  readonly maxAgeMs: number;
}

export function createResponseCache(options: ResponseCacheOptions): ResponseCache {
  const { clock, revision, maxBytes = 256 * mebibyte, maxAnswerBytes = mebibyte } = options;
  const store = createAnswerStore(maxBytes);
  const marks = createDropMarks();
  let hits = 0;
  let misses = 0;
  let kept = 0;

  const find = (key: string, { dialect, form, ttlMs, maxAgeMs }: Wanted): Hit | null => {
    const now = clock.now();
    for (const keptForm of [form, otherOf(form)]) {
      const name = nameOf(key, keptForm);
      const answer = store.find(name, now, ttlMs);
      // One that is too old for this caller stays for the others.
      const hit = answer && now < answer.keptAt + maxAgeMs && tell(answer, { dialect, keptForm, form });
      if (!hit) continue;
      store.touch(name);
      return hit;
    }
    return null;
  };

  return {
    lookUp({ call, alsoAbout, settings, candidates }) {
      const { route, caller, cache, stream, memory, startedAt } = call;
      const isUsed = settings.enabled && (cache.reads || cache.writes);
      if (!isUsed || (route !== 'chat' && route !== 'messages')) return noUse;
      const { projectId } = caller;
      const key = cacheKeyOf(projectId, { call, candidates, revision: revision() });
      const form: AnswerForm = stream ? 'stream' : 'plain';
      const { maxAgeMs = Number.POSITIVE_INFINITY } = cache;
      const hit = cache.reads ? find(key, { dialect: route, form, ttlMs: settings.ttlMs, maxAgeMs }) : null;
      if (hit) hits += 1;
      else if (cache.reads) misses += 1;
      if (hit || !cache.writes) return { hit, recording: null };
      const subjects = [...new Set([...(memory.subject === null ? [] : [memory.subject]), ...alsoAbout])].map(sha256Of);
      const keep = (bytes: Buffer, answer: { contentType: string; model: string }): void => {
        if (marks.isDropped(projectId, subjects, startedAt)) return;
        const keptAt = clock.now();
        kept += 1;
        // Who would have no kept answer has a newer one than the other form tells.
        if (!cache.reads || cache.maxAgeMs !== undefined) store.remove(nameOf(key, otherOf(form)));
        store.keep(nameOf(key, form), { bytes, ...answer, projectId, subjects, keptAt, expiresAt: keptAt + settings.ttlMs });
      };
      return { hit: null, recording: createRecording(maxAnswerBytes, keep) };
    },
    dropSubject(projectId, subjectSha256) {
      marks.add(projectId, subjectSha256, clock.now());
      return store.drop((answer) => answer.projectId === projectId && answer.subjects.includes(subjectSha256));
    },
    dropProject(projectId) {
      marks.add(projectId, null, clock.now());
      return store.drop((answer) => answer.projectId === projectId);
    },
    state: () => ({ ...store.state(), hits, misses, kept }),
  };
}

function nameOf(key: string, form: AnswerForm): string {
  return `${key} ${form}`;
}

function otherOf(form: AnswerForm): AnswerForm {
  return form === 'plain' ? 'stream' : 'plain';
}

function sha256Of(subject: string): string {
  return createHash('sha256').update(subject, 'utf8').digest('hex');
}

/** Null when the answer cannot be told in this form. */
function tell(answer: KeptAnswer, { dialect, keptForm, form }: { dialect: Dialect; keptForm: AnswerForm; form: AnswerForm }): Hit | null {
  const { model } = answer;
  if (keptForm === form) {
    const reading = read(dialect, form, answer.bytes);
    return reading && { bytes: answer.bytes, contentType: answer.contentType, model, reading };
  }
  const text = form === 'plain' ? plainOf(dialect, answer.bytes) : streamOf(dialect, answer.bytes);
  if (text === null) return null;
  const bytes = Buffer.from(text);
  const reading = read(dialect, form, bytes);
  return reading && { bytes, contentType: form === 'plain' ? 'application/json' : 'text/event-stream', model, reading };
}

function read(dialect: Dialect, form: AnswerForm, bytes: Buffer): AnswerReading | null {
  const rules = rulesOf[dialect];
  if (form === 'plain') return rules.readAnswer(bytes);
  const parser = createSseParser();
  const reader = rules.createStreamReader();
  for (const event of [...parser.push(bytes).events, ...parser.end().events]) reader.read(event);
  return reader.reading();
}

/** Bytes are copied into a buffer of its own that grows with them: pieces of a stream may be views of large chunks. */
function createRecording(
  maxBytes: number,
  keep: (bytes: Buffer, answer: { readonly contentType: string; readonly model: string }) => void,
): Recording {
  let room = Buffer.alloc(0);
  let length = 0;
  let isTooLarge = false;
  return {
    add(bytes) {
      if (isTooLarge) return;
      const needed = length + bytes.length;
      isTooLarge = needed > maxBytes;
      if (isTooLarge) {
        room = Buffer.alloc(0);
        return;
      }
      if (needed > room.length) {
        // Not of the pool that small buffers share: it would be held with the answer.
        const larger = Buffer.allocUnsafeSlow(Math.min(maxBytes, Math.max(needed, room.length * 2)));
        room.copy(larger, 0, 0, length);
        room = larger;
      }
      bytes.copy(room, length);
      length = needed;
    },
    keep(answer) {
      if (isTooLarge) return;
      const bytes = length === room.length ? room : Buffer.allocUnsafeSlow(length);
      if (bytes !== room) room.copy(bytes, 0, 0, length);
      keep(bytes, answer);
    },
  };
}
