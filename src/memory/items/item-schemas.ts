/**
 * Bodies of the item routes (specification 2 and 4.7, shapes 3): whatever is wrong with them is `bad_request`, with everything that is wrong
 * in its message and nothing of what was sent.
 */
import { z } from 'zod';
import { describeIssues } from '../../core/error-messages.ts';
import { gatewayError } from '../../core/errors.ts';
import { makeStorable } from '../../core/postgres-text.ts';
import { isSubject } from '../../core/subject.ts';
import { itemKinds } from '../records/item-record.ts';

const longestText = 4_000;

/** Something that a reader sees: no space, no control character, nothing without width. */
const seen = /[^\s\p{Cc}\p{Default_Ignorable_Code_Point}]/u;

/** In code points, of what is left after trimming and of what the database can keep. */
const text = z
  .string()
  .transform((given) => makeStorable(given).trim())
  .refine((kept) => seen.test(kept), 'must not be empty')
  .refine((kept) => kept.length <= longestText || [...kept].length <= longestText, `must have at most ${longestText} characters`);

const importanceWords = { low: 2, normal: 3, high: 4 } as const;
const importance = z.union(
  [z.int().min(1).max(5), z.enum(['low', 'normal', 'high']).transform((word) => importanceWords[word])],
  'must be a whole number from 1 to 5, or low, normal or high',
);

export const subjectInput = z.string().refine(isSubject, 'must be 1 to 256 characters without control characters');

const newItem = z.object({
  text,
  kind: z.enum(itemKinds).default('fact'),
  importance: importance.default(3),
  // Null is the absence of a value, as in the answers.
  subject: subjectInput.nullish().transform((given) => given ?? null),
  pinned: z.boolean().default(false),
});

export type NewItem = z.output<typeof newItem>;
export type Rating = 'useful' | 'wrong';

/** Body of `POST /v1/memory/items`. Unknown members are ignored. */
export function readNewItem(body: unknown): NewItem {
  return readBody(newItem, body);
}

/** Body of `PATCH /v1/memory/items/{id}`: the new text. */
export function readCorrection(body: unknown): string {
  return readBody(z.object({ text }), body).text;
}

/** Body of `POST /v1/memory/items/{id}/rating`. */
export function readRating(body: unknown): Rating {
  return readBody(z.object({ rating: z.enum(['useful', 'wrong']) }), body).rating;
}

/** Body of `POST /v1/memory/wake-up`, which may be left out: the end user, null for none. */
export function readWakeUp(body: unknown): string | null {
  return readBody(z.object({ subject: subjectInput.nullish() }), body ?? {}).subject ?? null;
}

const longestFocus = 2_000;
const focus = z
  .string()
  .transform((given) => makeStorable(given).trim())
  .refine((kept) => [...kept].length <= longestFocus, `must have at most ${longestFocus} characters`)
  .nullish();

/** Body of `POST /v1/memory/episodes/{id}/remember`, which may be left out: what to look for, null for everything. */
export function readRemember(body: unknown): string | null {
  return readBody(z.object({ focus }), body ?? {}).focus || null;
}

function readBody<Shape extends z.ZodType>(shape: Shape, body: unknown): z.output<Shape> {
  const parsed = shape.safeParse(body);
  if (!parsed.success) throw gatewayError('bad_request', { message: describeIssues(parsed.error).join('; ') });
  return parsed.data;
}
