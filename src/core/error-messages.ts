import { isObject } from './json/narrow.ts';

export interface Issue {
  /** The path of the invalid field, such as `ceilings.rpm`. Empty if the issue concerns the whole input. */
  readonly path: string;
  readonly message: string;
}

export function formatIssues(issues: readonly Issue[]): string {
  return issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ');
}

/**
 * Returns the message of a thrown value. We can't use `instanceof`, because PGlite throws objects that aren't errors,
 * and errors from workflow sandboxes belong to a different realm.
 */
export function errorMessage(error: unknown): string {
  return isObject(error) && typeof error.message === 'string' ? error.message : String(error);
}

/**
 * Returns the first line of an error's message, to quote it as a reason. If an AggregateError has no message, we join
 * the first lines of its errors.
 */
export function errorSummary(error: unknown): string {
  if (isObject(error) && error.message === '' && Array.isArray(error.errors)) return error.errors.map(errorSummary).join('; ');
  // PGlite throws plain objects without a message, so show all of their fields.
  if (isObject(error) && typeof error.message !== 'string') return JSON.stringify(error);
  return errorMessage(error).split('\n', 1)[0] ?? '';
}

export function errorCode(error: unknown): unknown {
  return isObject(error) ? error['code'] : undefined;
}
