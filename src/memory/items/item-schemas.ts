/**
 * Schemas for the request bodies of the item routes. They ignore unknown fields. The maximum length of a text is in
 * code points, and doesn't count white space at the ends.
 *
 * We also generate the API description from these schemas. It can't see what a `refine` checks, so describe that with
 * `meta`.
 */
import { z } from 'zod';
import { limitMarks } from '../../core/combining-marks.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { isSubject } from '../../core/subject.ts';
import { itemKinds } from '../records/item-record.ts';

const maxTextLength = 4_000;
const maxFocusLength = 2_000;
const maskedFactor = 3;

/** A character that people can see, i.e. not white space, a control character or a zero-width character. */
const visibleCharacter = /[^\s\p{Cc}\p{Default_Ignorable_Code_Point}]/u;

export const storableText = z.string().transform((value) => toPostgresText(value).trim());

export function hasAtMost(text: string, maxLength: number): boolean {
  // Check the number of UTF-16 code units first, so that we don't have to split a text of several megabytes. A code
  // point has one or two of them.
  return text.length <= maxLength || (text.length <= 2 * maxLength && [...text].length <= maxLength);
}

/**
 * Normalization turns a character like `ﷺ` into 18, which take that much longer to index and to search. `factor` is how
 * many times as long as the text of a request the text may be.
 */
export function isQuickToIndex(text: string, factor = 1): boolean {
  return hasAtMost(limitMarks(text).normalize('NFKC'), factor * 2 * maxTextLength);
}

const visibleText = storableText.refine((stored) => visibleCharacter.test(stored), 'must not be empty');

export const itemText = visibleText
  .refine((stored) => hasAtMost(stored, maxTextLength), { error: `must have at most ${maxTextLength} characters`, abort: true })
  .refine((stored) => isQuickToIndex(stored), 'has too many characters that stand for whole words, such as ﷺ; write the words instead')
  .meta({
    description: '1 to 4,000 characters after trimming, in which credentials are replaced',
    ...{ minLength: 1, maxLength: maxTextLength, pattern: visibleCharacter.source },
  });

/**
 * The text of a memory in which credentials have been masked. It can be up to three times as long as the text that we
 * accept in a request, because a mask may be longer than the credential that it replaces.
 */
export const storedItemText = visibleText
  .refine((stored) => hasAtMost(stored, maskedFactor * maxTextLength), { error: 'is too long', abort: true })
  .refine((stored) => isQuickToIndex(stored, maskedFactor), 'has too many characters that stand for whole words');

const importanceLevels = { low: 2, normal: 3, high: 4 } as const;
export const importance = z.union(
  [z.int().min(1).max(5), z.enum(['low', 'normal', 'high']).transform((level) => importanceLevels[level])],
  'must be a whole number from 1 to 5, or low, normal or high',
);

/** Makes a field optional. Null counts as missing, because many clients send it for fields that they don't set. */
export function optional<Schema extends z.ZodType>(schema: Schema) {
  return schema.nullish().transform((value): z.output<Schema> | null => value ?? null);
}

/** Like `optional`, but a missing field gets a value. */
export function withDefault<Schema extends z.ZodType>(schema: Schema, fallback: z.output<Schema>) {
  return schema.nullish().transform((value) => value ?? fallback);
}

/**
 * A list of at most `max` entries. If a list is longer, we don't look at its entries, because a body of 32 MiB could
 * have millions of wrong ones, and we'd list all of them in the error message.
 */
export function shortList<Schema extends z.ZodType>(entry: Schema, max: number) {
  return z.preprocess((value, context) => {
    if (Array.isArray(value) && value.length > max)
      context.addIssue({ code: 'too_big', origin: 'array', maximum: max, input: value.length });
    return value;
  }, z.array(entry).max(max));
}

export const optionalSubject = optional(
  z
    .string()
    .refine(isSubject, 'must be 1 to 256 characters without control characters')
    .meta({ minLength: 1, maxLength: 256, pattern: String.raw`^[^\p{Cc}\p{Cs}]+$` }),
).describe('the end user; if you omit it, the whole project');

const pinned = withDefault(z.boolean(), false).describe('`true` is rejected, because only a person can pin a memory');

export const itemBody = z.object({
  text: itemText,
  kind: withDefault(z.enum(itemKinds), 'fact').describe('by default `fact`'),
  importance: withDefault(importance, 3).describe('by default 3, which is the same as `normal`'),
  subject: optionalSubject,
  pinned,
});

export type NewItem = z.output<typeof itemBody>;

/** A correction can't pin a memory. We parse `pinned` anyway, so that we can reject requests that contain it. */
export const correctionBody = z.object({ text: itemText, pinned });

const rating = z.enum(['useful', 'wrong']);
export type Rating = z.output<typeof rating>;

const maxRated = 100;
const id = z.uuid('must be a UUID').transform((value) => value.toLowerCase());

export const ratedMemory = z.object({ id, rating });

/**
 * If `call_id` is set, the rating is about a memory that recall inserted into this call, and `memories` can rate other
 * memories of the same call.
 */
export const ratingBody = z
  .object({
    rating,
    call_id: optional(id),
    memories: withDefault(shortList(ratedMemory, maxRated), []),
  })
  .refine(({ call_id: callId, memories }) => callId !== null || memories.length === 0, {
    path: ['call_id'],
    message: 'is required if you set memories',
  });

export type RatingRequest = z.output<typeof ratingBody>;

export const wakeUpBody = z.preprocess(toOptionalBody, z.object({ subject: optionalSubject }));

/** The body of a request to learn from a conversation. A missing or empty `focus` becomes null. */
export const rememberBody = z.preprocess(
  toOptionalBody,
  z.object({
    focus: storableText
      .refine((stored) => hasAtMost(stored, maxFocusLength), `must have at most ${maxFocusLength} characters`)
      .meta({ maxLength: maxFocusLength })
      .nullish()
      .transform((value) => value || null)
      .describe('what to learn, by default everything relevant'),
  }),
);

export function toOptionalBody(body: unknown): unknown {
  return body ?? {};
}
