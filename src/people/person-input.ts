import { z } from 'zod';
import { nameInput } from '../core/name.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';

/** In lower case, because in practice, addresses that only differ in case belong to the same person. */
const email = z
  .string()
  .trim()
  .toLowerCase()
  .max(254)
  .regex(/^[^\s@<>"\p{Cc}\p{Cs}]+@[^\s@<>"\p{Cc}\p{Cs}]+$/u, 'must be an e-mail address');
const password = z.string().meta({ description: '12 to 256 characters', minLength: 12, maxLength: 256 });

export const newPersonInput = z.strictObject({
  email,
  name: nameInput.optional().describe('by default the part of the e-mail address before the @'),
  password: password.optional().describe('if you omit it, the response contains a one-time sign-in link'),
  admin: z.boolean().optional().describe('whether the person is a deployment admin'),
});

export const personChange = z.strictObject({
  name: nameInput.optional(),
  admin: z.boolean().optional().describe('whether the person is a deployment admin'),
  disabled: z.boolean().optional().describe('a disabled person cannot sign in, and their sessions end'),
});

export const signInLinkInput = z.strictObject({
  email: email
    .optional()
    .describe(
      'e-mail address, for which an account is created if nobody has it; without an address, the link creates the account of a deployment admin, and `admin` must be true',
    ),
  admin: z.boolean().optional().describe('whether to make the person a deployment admin'),
});

export const memberInput = z.strictObject({ role: z.enum(['owner', 'member']) });

/** The data that the undo button submits to add a removed member again. */
export const removedMember = z.strictObject({
  personId: z.uuid(),
  email: z.string().max(254),
  name: z.string().max(200),
  role: memberInput.shape.role,
  isConfirmed: z.boolean(),
  createdAt: z.int().min(0),
});

export const invitation = newPersonInput.pick({ email: true, name: true });

/** What people enter when they use a sign-in link that creates an account. */
const newAccount = z.object({ email, name: nameInput });

const identity = z.object({ email, name: nameInput.optional().catch(undefined) });

export type NewPerson = z.output<typeof newPersonInput>;

export function parseName(input: string): string {
  return parseOrBadRequest(z.object({ name: nameInput }), { name: input }).name;
}

export function parseNewAccount(input: { email: string; name: string }): z.output<typeof newAccount> {
  return parseOrBadRequest(newAccount, input);
}

/**
 * Parses what an identity provider claims about a person. Returns null if the address is invalid. An invalid name is
 * just left out.
 */
export function parseIdentity(address: string | null, givenName: string | null): z.output<typeof identity> | null {
  return identity.safeParse({ email: address, name: givenName }).data ?? null;
}

/** Makes up a name for a person who hasn't entered one. */
export function nameFromEmail(address: string): string {
  return address.slice(0, address.lastIndexOf('@'));
}
