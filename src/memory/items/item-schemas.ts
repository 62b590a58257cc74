/** Request bodies of the item routes; unknown fields are ignored. Lengths count code points of the stored text. */
import { z } from 'zod';
import { toPostgresText } from '../../core/postgres-text.ts';
import { isSubject } from '../../core/subject.ts';
import { itemKinds } from '../records/item-record.ts';

const maxTextLength = 4_000;
const maxFocusLength = 2_000;

/** At least one visible character: not a space, control character or zero-width character. */
const visibleCharacter = /[^\s\p{Cc}\p{Default_Ignorable_Code_Point}]/u;

/** Trimmed, and without what PostgreSQL cannot store. */
export const storableText = z.string().transform((value) => toPostgresText(value).trim());

export function hasAtMost(text: string, maxLength: number): boolean {
  // A code point has at most two units, so a text of megabytes is never split into its code points.
  return text.length <= maxLength || (text.length <= 2 * maxLength && [...text].length <= maxLength);
}

const visibleText = storableText.refine((stored) => visibleCharacter.test(stored), 'must not be empty');

/** Text of a memory. */
export const itemText = visibleText.refine((stored) => hasAtMost(stored, maxTextLength), `must have at most ${maxTextLength} characters`);

/** Text of a memory as it is stored: a masked credential may be longer than the credential was. */
export const storedItemText = visibleText.refine((stored) => hasAtMost(stored, 3 * maxTextLength), 'is too long');

const importanceLevels = { low: 2, normal: 3, high: 4 } as const;
export const importance = z.union(
  [z.int().min(1).max(5), z.enum(['low', 'normal', 'high']).transform((level) => importanceLevels[level])],
  'must be a whole number from 1 to 5, or low, normal or high',
);

/** Null for none: responses write an absent subject as null, so null is accepted too. */
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

/** `focus` is null for none. */
export const rememberBody = z.preprocess(
  toOptionalBody,
  z.object({
    focus: storableText
      .refine((stored) => hasAtMost(stored, maxFocusLength), `must have at most ${maxFocusLength} characters`)
      .nullish()
      .transform((value) => value || null),
  }),
);

/** A body may be omitted or null. */
export function toOptionalBody(body: unknown): unknown {
  return body ?? {};
}
