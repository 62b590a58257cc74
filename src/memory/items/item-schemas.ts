/**
 * Bodies of the item routes (specification 2 and 4.7, shapes 3): whatever is wrong with them is `bad_request`, with everything that is wrong
 * in its message and nothing of what was sent.
 */
import { z } from 'zod';
import { formatIssues } from '../../core/error-messages.ts';
import { gatewayError } from '../../core/errors.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { isSubject } from '../../core/subject.ts';
import { itemKinds } from '../records/item-record.ts';

const maxTextLength = 4_000;

/** Something that a reader sees: no space, no control character, nothing without width. */
const visibleCharacter = /[^\s\p{Cc}\p{Default_Ignorable_Code_Point}]/u;

/** In code points, of what is left after trimming and of what the database can keep. */
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
  // Null is the absence of a value, as in the answers.
  subject: subjectSchema.nullish().transform((value) => value ?? null),
  pinned: z.boolean().default(false),
});

export type NewItem = z.output<typeof newItemSchema>;
export type Rating = 'useful' | 'wrong';

/** Body of `POST /v1/memory/items`. Unknown members are ignored. */
export function parseNewItem(body: unknown): NewItem {
  return parseBody(newItemSchema, body);
}

/** Body of `PATCH /v1/memory/items/{id}`: the new text. */
export function parseCorrection(body: unknown): string {
  return parseBody(z.object({ text }), body).text;
}

/** Body of `POST /v1/memory/items/{id}/rating`. */
export function parseRating(body: unknown): Rating {
  return parseBody(z.object({ rating: z.enum(['useful', 'wrong']) }), body).rating;
}

/** Body of `POST /v1/memory/wake-up`, which may be left out: the end user, null for none. */
export function parseWakeUp(body: unknown): string | null {
  return parseBody(z.object({ subject: subjectSchema.nullish() }), body ?? {}).subject ?? null;
}

const maxFocusLength = 2_000;
const focus = z
  .string()
  .transform((value) => toPostgresText(value).trim())
  .refine((trimmed) => [...trimmed].length <= maxFocusLength, `must have at most ${maxFocusLength} characters`)
  .nullish();

/** Body of `POST /v1/memory/episodes/{id}/remember`, which may be left out: what to look for, null for everything. */
export function parseRemember(body: unknown): string | null {
  return parseBody(z.object({ focus }), body ?? {}).focus || null;
}

function parseBody<Shape extends z.ZodType>(shape: Shape, body: unknown): z.output<Shape> {
  const parsed = shape.safeParse(body);
  if (!parsed.success) throw gatewayError('bad_request', { message: formatIssues(parsed.error).join('; ') });
  return parsed.data;
}
