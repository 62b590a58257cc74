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
