/**
 * The file format of an export (docs/memory-export.md). It's JSON Lines with a header, records, and a last line that
 * has the number of records. We leave out fields that are null. An import ignores fields that it doesn't know, so new
 * versions can add some.
 */
import { z } from 'zod';
import { asString } from '../../core/json/narrow.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';
import { optional, storedItemText, optionalSubject as subject } from '../items/item-schemas.ts';
import { itemKinds, maxCount } from '../records/item-record.ts';
import { foldName } from '../text/lexemes.ts';

export const formatName = 'model-gateway-memory';
/** Increase this when a change to the format would make older gateways import the file incorrectly. */
export const formatVersion = 2;

/**
 * Returns SQL that formats a time in UTC with microseconds, so that an imported row has exactly the same time as the
 * original.
 */
export function timeSql(expression: string): string {
  return `to_char(${expression} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
}

/**
 * Checks whether we can store the time. UUIDv7 ids can't represent times before 1970, and PostgreSQL only accepts
 * offsets of less than 16 hours.
 */
export function isStorableTime(text: string): boolean {
  return Date.parse(text) >= 0 && !/[+-](?:1[6-9]|2\d):\d\d$/.test(text);
}

export const unstorableTime = 'must be after 1970-01-01, with an offset below 16 hours';

const time = z.iso
  .datetime({ offset: true, error: 'must be a time in RFC 3339, for example 2027-01-01T00:00:00Z' })
  .refine(isStorableTime, unstorableTime);
const optionalTime = optional(time);
const storedText = z.string().transform((text) => toPostgresText(text));

/**
 * The names that the gateway writes have at most 1,200 bytes. PostgreSQL rejects index entries of more than 2,704
 * bytes, and some entries also contain a subject, which has up to 1,024 bytes.
 */
const maxNameBytes = 1_500;

/** Names are masked too, because they could contain a credential. */
const name = storedText
  .pipe(z.string().min(1).max(1_000))
  .transform((text) => maskCredentials(text))
  .refine(
    (text) => [text, foldName(text)].every((stored) => Buffer.byteLength(stored) <= maxNameBytes),
    `must have at most ${maxNameBytes} bytes`,
  );
const id = z.uuid().transform((text) => text.toLowerCase());
const position = z.int().min(0).max(2_147_483_647);
const count = z.int().min(0).max(maxCount);

export const header = z.object({
  type: z.literal('header'),
  format: z.literal(formatName),
  version: z.int(),
  project: z.string(),
  subject: optional(z.string()),
  exported_at: time,
});

const conversation = z.object({
  type: z.literal('conversation'),
  id,
  source: name,
  subject,
  calls: count,
  learnable: z.boolean().default(false),
  learned_messages: position.default(0),
  started_at: time,
  last_turn_at: time,
});

const message = z.object({
  type: z.literal('message'),
  conversation: id,
  position,
  role: z.enum(['user', 'assistant']),
  text: storedText,
  tool_calls: z.array(z.object({ name: storedText, arguments: storedText })).default([]),
  starts: z.boolean().default(false),
  call: optional(id),
  created_at: time,
});

const item = z
  .object({
    type: z.literal('item'),
    id,
    subject,
    text: storedItemText,
    kind: z.enum(itemKinds),
    importance: z.int().min(1).max(5),
    pinned: z.boolean().default(false),
    origin: z.enum(['agent', 'observed', 'person']),
    author: name,
    state: z.enum(['live', 'closed']),
    useful: count.default(0),
    wrong: count.default(0),
    wrong_overruled: count.default(0),
    conversation: optional(id),
    evidence: optional(storedText),
    created_at: time,
    updated_at: time,
    closed_at: optionalTime,
  })
  .refine(
    ({ state, closed_at }) => (state === 'closed') === (closed_at !== null),
    'closed_at: is required for closed memories, and not allowed for others',
  );

const vote = z.object({
  type: z.literal('vote'),
  item: id,
  voter: name,
  subject,
  rating: z.enum(['useful', 'wrong']),
  voted_at: time,
});

const succession = z.object({
  type: z.literal('succession'),
  item: optional(id),
  supersedes: optional(id),
  fact: optional(id),
  superseded_by: optional(id),
});

const entity = z.object({ type: z.literal('entity'), id, subject, name, created_at: time });

const fact = z.object({
  type: z.literal('fact'),
  id,
  subject,
  source: name,
  relation: name,
  target: name,
  fact: storedText.pipe(z.string().max(10_000)),
  evidence: optional(storedText),
  items: z.array(id).default([]),
  valid_from: time,
  valid_to: optionalTime,
  created_at: time,
});

const page = z.object({ type: z.literal('page'), subject, text: storedText.pipe(z.string().max(100_000)), updated_at: time });

/**
 * A stored prompt. Only exports of a single subject contain prompts, and an import skips them (docs/memory-export.md).
 */
const prompt = z.looseObject({ type: z.literal('prompt'), call: id });

const end = z.object({ type: z.literal('end'), records: z.record(z.string(), position) });

export const line = z.discriminatedUnion('type', [conversation, message, item, vote, succession, entity, fact, page, prompt, end]);

type Line = z.output<typeof line>;
export type RecordType = Exclude<Line['type'], 'end'>;
/** A record from an export file, with its line number. */
export type RecordOf<Type extends Line['type']> = Extract<Line, { readonly type: Type }> & { readonly line: number };

const timeSchemas: ReadonlySet<unknown> = new Set([time, optionalTime]);
const timeFields = new Map(
  line.options.map(({ shape }) => [
    shape.type.value,
    Object.entries(shape).flatMap(([field, schema]) => (timeSchemas.has(schema) ? [field] : [])),
  ]),
);

/** Returns all times in a record. */
export function timesOf(record: Line): string[] {
  return (timeFields.get(record.type) ?? []).flatMap((field) => asString(Reflect.get(record, field)) ?? []);
}
