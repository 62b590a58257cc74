/**
 * Defines the seeded rows. Everything in a row is an SQL expression of the row's number, so the same number always
 * leads to the same row. We compute one hash per row with PostgreSQL's `hashint8extended`, and use different bits of it
 * for different columns.
 */
import { monthAt, systemClock } from '../../src/core/time.ts';

/** 80 % of all rows belong to the first project. The last one has nothing but `smallMemories` memories. */
export const projectCount = 12;
export const smallMemories = 500;
export const keysPerProject = 40;
const subjectCount = 50_000;
/** This subject is in the first project, and has many more memories than any other subject. */
export const largeSubject = 'user-large';
const largeSubjectMemories = 5_000;
/** We only store the body of every hundredth call. Four of these calls make up a conversation. */
export const bodyEvery = 100;
export const conversationTurns = 4;
export const callsPerConversation = bodyEvery * conversationTurns;
export const dims = 384;
/**
 * The model of the local embedder, which also embeds our queries. Stored passages have the model's name without the
 * provider.
 */
export const embeddingModel = 'bge-small-en-v1.5';

/** The models, with prices in nano-dollars per token. */
export const models = [
  { name: 'scale/large', input: 3_000, output: 15_000 },
  { name: 'scale/medium', input: 400, output: 1_600 },
  { name: 'scale/small', input: 150, output: 600 },
  { name: 'scale/mini', input: 50, output: 200 },
];

/**
 * How much data there should be. We build texts and vectors from this many `topics`, `smallTopics`, `noises`, `phrases`
 * and `paragraphs`.
 * @typedef {{ startMs: number, endMs: number, calls: number, memories: number, projects: readonly string[], topics: number, smallTopics: number, noises: number, phrases: number, paragraphs: number }} Shape
 */

/**
 * Calculates how much data to create. The calls cover the last six months.
 * @param {number} calls
 * @param {number} memories
 * @param {readonly string[]} projects
 * @returns {Shape}
 */
export function createShape(calls, memories, projects) {
  const endMs = systemClock.now();
  let startMs = monthAt(endMs).start;
  for (let month = 1; month < 6; month += 1) startMs = monthAt(startMs - 1).start;
  const topics = clamp(memories / 5_000, 5, 200);
  const phrases = clamp(memories / 33, 500, 30_000);
  const material = { topics, smallTopics: 40 * topics, noises: 60 * topics, phrases, paragraphs: Math.floor(phrases / 6) };
  return { startMs, endMs, calls, memories, projects, ...material };
}

/**
 * Picks an integer below `range` with 20 bits of a hash.
 * @param {string} hash
 * @param {number} shift
 * @param {number} range
 */
export const pick = (hash, shift, range) => `(((${hash} >> ${shift}) & 1048575) * ${range} >> 20)::integer`;

/**
 * Like `pick`, but prefers small numbers. 0 is picked for at least a tenth of all rows.
 * @param {string} hash
 * @param {number} shift
 * @param {number} range
 */
export const pickSkewed = (hash, shift, range) =>
  `floor(power(((${hash} >> ${shift}) & 1048575) / 1048576.0::float8, 2) * ${range})::integer`;

/** Returns SQL for the number of the project that a row belongs to. Project numbers start at 1. @param {string} hash */
export const projectNumber = (hash) => `(case when (${hash} & 1023) < 819 then 1 else 2 + ${pick(hash, 10, projectCount - 2)} end)`;

/** Returns the time of call `n` in milliseconds since 1970. @param {Shape} shape @param {string} n */
export const callMs = ({ startMs, endMs, calls }, n) => `(${startMs} + floor(${n} * ${(endMs - startMs) / calls}::float8))::bigint`;

/** Returns the time of memory `n` in milliseconds since 1970. @param {Shape} shape @param {string} n */
export const memoryMs = ({ startMs, endMs, memories }, n) => `(${startMs} + floor(${n} * ${(endMs - startMs) / memories}::float8))::bigint`;

/**
 * Creates a UUIDv7 that doesn't change from one run to the next.
 * @param {string} ms
 * @param {string} name has to be different for each row
 */
export const idAt = (ms, name) =>
  `(lpad(to_hex(${ms}), 12, '0') || '7' || left(md5(${name}), 3) || '8' || substr(md5(${name}), 4, 15))::uuid`;

/** @param {Shape} shape @param {string} n */
export const callId = (shape, n) => idAt(callMs(shape, n), `'call' || ${n}`);

/** @param {Shape} shape @param {string} n */
export const itemId = (shape, n) => idAt(memoryMs(shape, n), `'item' || ${n}`);

/** @param {Shape} shape @param {string} c the number of the conversation */
export const conversationId = (shape, c) => idAt(callMs(shape, `(${c} * ${callsPerConversation}::bigint)`), `'conversation' || ${c}`);

/**
 * Returns the hash from which we derive the project, application and subject of a call. It's the same for all calls of
 * a conversation.
 * @param {string} n
 */
export const callScopeHash = (n) =>
  `hashint8extended(case when ${n} % ${bodyEvery} = 0 then -1 - ${n} / ${callsPerConversation} else ${n} end, 1)`;
/** @param {string} c */
export const conversationScopeHash = (c) => `hashint8extended(-1 - ${c}::bigint, 1)`;

/** There's one application that hardly makes any calls, only one in 65,536. @param {string} scopeHash */
export const source = (scopeHash) =>
  `(case when (${scopeHash} >> 44) & 65535 = 0 then 'app-rare' else 'app-' || ${pickSkewed(scopeHash, 30, 12)} end)`;

/** Every other row has a subject. @param {string} hash */
export const subject = (hash) => `(case when (${hash} >> 50) & 1 = 0 then 'user-' || ${pick(hash, 40, subjectCount)} end)`;

/**
 * Returns the subject of memory `n`. In the first project, `largeSubject` has about 5,000 memories. The SQL refers to a
 * column `project`, which the query has to provide.
 * @param {Shape} shape
 * @param {string} hash
 * @param {string} n
 */
export function memorySubject({ memories }, hash, n) {
  const every = Math.max(20, Math.floor((0.8 * memories) / largeSubjectMemories));
  return `(case when project = 1 and ${n} % ${every} = 0 then '${largeSubject}' else ${subject(hash)} end)`;
}

/** @param {string} text */
export const sha256 = (text) => `sha256(convert_to(${text}, 'UTF8'))`;

/** @param {string} ms */
export const timeOf = (ms) => `to_timestamp(${ms} / 1000.0::float8)`;

/** @param {readonly string[]} ids */
export const uuidArray = (ids) => `'{${ids.join(',')}}'::uuid[]`;

/** @param {number} value @param {number} least @param {number} most */
function clamp(value, least, most) {
  return Math.round(Math.min(most, Math.max(least, value)));
}
