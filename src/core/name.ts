import { z } from 'zod';

const controlCharacters = 'must not contain control characters';

/** The name of something that people create, such as a project or a key. */
export const nameInput = z
  .string()
  .trim()
  .min(1)
  .max(200)
  .regex(/^[^\p{Cc}\p{Cs}]*$/u, controlCharacters);

/**
 * Creates the error for a name that doesn't match its pattern. If the name contains control characters, which people
 * can't see, the error says so.
 */
export function nameError(message: string) {
  return { error: ({ input }: { readonly input?: unknown }) => (/[\p{Cc}\p{Cs}]/u.test(String(input)) ? controlCharacters : message) };
}
