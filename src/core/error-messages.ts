/** Texts about errors. */
import type { z } from 'zod';
import { isObject } from './json/narrow.ts';

/** The issues found by a zod schema, each with its path: `ceilings.rpm: Invalid input: expected number, received string`. */
export function formatIssues(error: z.core.$ZodError): string[] {
  return error.issues.map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`));
}

/** The message of a thrown value. Does not use `instanceof`: PGlite throws objects that are no errors, workflow sandboxes errors of another realm. */
export function errorMessage(error: unknown): string {
  return isObject(error) && typeof error.message === 'string' ? error.message : String(error);
}

/** The first line of an error's message, or of each message of an AggregateError without its own; for sentences that quote a reason. */
export function errorSummary(error: unknown): string {
  if (isObject(error) && error.message === '' && Array.isArray(error.errors)) return error.errors.map(errorSummary).join('; ');
  // PGlite throws plain objects without a message.
  if (isObject(error) && typeof error.message !== 'string') return JSON.stringify(error);
  return errorMessage(error).split('\n', 1)[0] ?? '';
}

/** The error's code, such as ENOENT. */
export function errorCode(error: unknown): unknown {
  return isObject(error) ? error['code'] : undefined;
}
