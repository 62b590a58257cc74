/** Formats errors for people. */
import type { z } from 'zod';
import { isObject } from './json/narrow.ts';

/** Formats the issues that a zod schema found, each with its path, e.g. `ceilings.rpm: must be a number`. */
export function formatIssues(error: z.core.$ZodError): string[] {
  return error.issues.map(({ path, message }) =>
    path.length === 0 ? plainMessage(message) : `${path.join('.')}: ${plainMessage(message)}`,
  );
}

const kinds: Readonly<Record<string, string>> = {
  ...{ string: 'a text', number: 'a number', int: 'a whole number', boolean: 'true or false', array: 'a list', object: 'an object' },
};

/** Replaces the default messages of zod with sentences like those that our schemas set themselves. */
function plainMessage(message: string): string {
  return message
    .replace(/^Invalid input: expected .*, received undefined$/, 'is required')
    .replace(/^Invalid input: expected (\w+), received \w+$/, (all, kind: string) => (kinds[kind] ? `must be ${kinds[kind]}` : all))
    .replace(
      /^Invalid option: expected one of (.*)$/,
      (_, values: string) => `must be ${values.replaceAll('"', '').split('|').join(' or ')}`,
    )
    .replace(/^Too small: expected number to be >=?(\S+)$/, 'must be at least $1')
    .replace(/^Too big: expected number to be <=?(\S+)$/, 'must be at most $1')
    .replace(/^Too small: expected (?:string|array) to have >=1 (?:characters|items)$/, 'must not be empty')
    .replace(/^Too big: expected string to have <=(\d+) characters$/, 'must have at most $1 characters');
}

/**
 * Returns the message of a thrown value. We can't use `instanceof`, because PGlite throws objects that aren't errors,
 * and workflow sandboxes throw errors of another realm.
 */
export function errorMessage(error: unknown): string {
  return isObject(error) && typeof error.message === 'string' ? error.message : String(error);
}

/**
 * Returns the first line of an error's message, for sentences that quote a reason. For an AggregateError without a
 * message of its own, joins the first lines of its errors.
 */
export function errorSummary(error: unknown): string {
  if (isObject(error) && error.message === '' && Array.isArray(error.errors)) return error.errors.map(errorSummary).join('; ');
  // PGlite throws plain objects without a message.
  if (isObject(error) && typeof error.message !== 'string') return JSON.stringify(error);
  return errorMessage(error).split('\n', 1)[0] ?? '';
}

export function errorCode(error: unknown): unknown {
  return isObject(error) ? error['code'] : undefined;
}
