/** Texts about errors. */
import { isObject } from './json/narrow.ts';

/** What is wrong with a member of an input. */
export interface Issue {
  /** Such as `ceilings.rpm`; empty for the whole input. */
  readonly path: string;
  readonly message: string;
}

/** Such as `ceilings.rpm: must be a number; name: is required`. */
export function formatIssues(issues: readonly Issue[]): string {
  return issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ');
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
