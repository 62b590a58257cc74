/**
 * Request bodies of the item routes. Unknown fields are ignored. Length limits count the code points of the stored
 * text.
 */
import { z } from 'zod';
import { toPostgresText } from '../../core/postgres-text.ts';
import { isSubject } from '../../core/subject.ts';
import { itemKinds } from '../records/item-record.ts';

const maxTextLength = 4_000;
const maxFocusLength = 2_000;

/** Matches anything except white space, control characters and zero-width characters. */
const visibleCharacter = /[^\s\p{Cc}\p{Default_Ignorable_Code_Point}]/u;

/** Trims the text and removes characters that PostgreSQL can't store. */
export const storableText = z.string().transform((value) => toPostgresText(value).trim());

export function hasAtMost(text: string, maxLength: number): boolean {
  // A code point has at most two UTF-16 code units, so we never have to split a text of several megabytes.
  return text.length <= maxLength || (text.length <= 2 * maxLength && [...text].length <= maxLength);
}

const visibleText = storableText.refine((stored) => visibleCharacter.test(stored), 'must not be empty');

/** The text of a memory. */
export const itemText = visibleText.refine((stored) => hasAtMost(stored, maxTextLength), `must have at most ${maxTextLength} characters`);

/** Allows longer texts, because masking may have replaced a credential with something longer. */
export const storedItemText = visibleText.refine((stored) => hasAtMost(stored, 3 * maxTextLength), 'is too long');

const importanceLevels = { low: 2, normal: 3, high: 4 } as const;
export const importance = z.union(
  [z.int().min(1).max(5), z.enum(['low', 'normal', 'high']).transform((level) => importanceLevels[level])],
  'must be a whole number from 1 to 5, or low, normal or high',
);

/** Our responses contain null if there's no subject, so we accept null in requests as well. */
export const optionalSubject = z
  .string()
  .refine(isSubject, 'must be 1 to 256 characters without control characters')
  .nullish()
  .transform((value) => value ?? null);

export const itemBody = z.object({
  text: itemText,
  kind: z.enum(itemKinds).default('fact'),
  importance: importance.default(3),
  subject: optionalSubject,
  pinned: z.boolean().default(false),
});

export type NewItem = z.output<typeof itemBody>;

export const correctionBody = z.object({ text: itemText });

export const ratingBody = z.object({ rating: z.enum(['useful', 'wrong']) });

export type Rating = z.output<typeof ratingBody>['rating'];

export const wakeUpBody = z.preprocess(toOptionalBody, z.object({ subject: optionalSubject }));

/** `focus` is null if it's missing or empty. */
export const rememberBody = z.preprocess(
  toOptionalBody,
  z.object({
    focus: storableText
      .refine((stored) => hasAtMost(stored, maxFocusLength), `must have at most ${maxFocusLength} characters`)
      .nullish()
      .transform((value) => value || null),
  }),
);

/** Treats a missing or null body as an empty object. */
export function toOptionalBody(body: unknown): unknown {
  return body ?? {};
}
