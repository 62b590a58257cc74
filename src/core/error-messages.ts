/** Sentences about what is wrong. */
import type { z } from 'zod';
import { isObject } from './json/narrow.ts';

/** What a zod schema found wrong, each with its place: `ceilings.rpm: Invalid input: expected number, received string`. */
export function formatIssues(error: z.core.$ZodError): string[] {
  return error.issues.map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`));
}

/** The message of what was thrown. By its members, not its class: Node's own errors are of another realm inside jest and worker contexts. */
export function errorMessage(error: unknown): string {
  return isObject(error) && typeof error.message === 'string' ? error.message : String(error);
}

/** The first line of an error's message, for sentences that quote a reason. */
export function errorSummary(error: unknown): string {
  return errorMessage(error).split('\n', 1)[0] ?? '';
}

/** The error's code, such as ENOENT. */
export function errorCode(error: unknown): unknown {
  return isObject(error) ? error['code'] : undefined;
}
