/** Request bodies of the item routes. Errors are `bad_request`; the message lists every invalid field and never quotes the input. */
import { z } from 'zod';
import { formatIssues } from '../../core/error-messages.ts';
import { gatewayError } from '../../core/errors.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { isSubject } from '../../core/subject.ts';
import { itemKinds } from '../records/item-record.ts';

const maxTextLength = 4_000;

/** At least one visible character: not a space, control character or zero-width character. */
const visibleCharacter = /[^\s\p{Cc}\p{Default_Ignorable_Code_Point}]/u;

/** Lengths count code points after trimming and after removing what PostgreSQL cannot store. */
const text = z
  .string()
  .transform((value) => toPostgresText(value).trim())
  .refine((trimmed) => visibleCharacter.test(trimmed), 'must not be empty')
  .refine(
    (trimmed) => trimmed.length <= maxTextLength || [...trimmed].length <= maxTextLength,
    `must have at most ${maxTextLength} characters`,
  );

const importanceLevels = { low: 2, normal: 3, high: 4 } as const;
const importance = z.union(
  [z.int().min(1).max(5), z.enum(['low', 'normal', 'high']).transform((level) => importanceLevels[level])],
  'must be a whole number from 1 to 5, or low, normal or high',
);

export const subjectSchema = z.string().refine(isSubject, 'must be 1 to 256 characters without control characters');

const newItemSchema = z.object({
  text,
  kind: z.enum(itemKinds).default('fact'),
  importance: importance.default(3),
  // Responses write an absent subject as null, so null is accepted too.
  subject: subjectSchema.nullish().transform((value) => value ?? null),
  pinned: z.boolean().default(false),
});

export type NewItem = z.output<typeof newItemSchema>;
export type Rating = 'useful' | 'wrong';

/** Body of `POST /v1/memory/items`. Unknown fields are ignored. */
export function parseNewItem(body: unknown): NewItem {
  return parseBody(newItemSchema, body);
}

/** Body of `PATCH /v1/memory/items/{id}`; returns the new text. */
export function parseCorrection(body: unknown): string {
  return parseBody(z.object({ text }), body).text;
}

/** Body of `POST /v1/memory/items/{id}/rating`. */
export function parseRating(body: unknown): Rating {
  return parseBody(z.object({ rating: z.enum(['useful', 'wrong']) }), body).rating;
}

/** Optional body of `POST /v1/memory/wake-up`; returns the subject, null for none. */
export function parseWakeUp(body: unknown): string | null {
  return parseBody(z.object({ subject: subjectSchema.nullish() }), body ?? {}).subject ?? null;
}

const maxFocusLength = 2_000;
const focus = z
  .string()
  .transform((value) => toPostgresText(value).trim())
  .refine((trimmed) => [...trimmed].length <= maxFocusLength, `must have at most ${maxFocusLength} characters`)
  .nullish();

/** Optional body of `POST /v1/memory/episodes/{id}/remember`; returns the focus, null for none. */
export function parseRemember(body: unknown): string | null {
  return parseBody(z.object({ focus }), body ?? {}).focus || null;
}

function parseBody<Shape extends z.ZodType>(shape: Shape, body: unknown): z.output<Shape> {
  const parsed = shape.safeParse(body);
  if (!parsed.success) throw gatewayError('bad_request', { message: formatIssues(parsed.error).join('; ') });
  return parsed.data;
}
