import type { z } from 'zod';
import { formatIssues } from './error-messages.ts';
import { gatewayError } from './errors.ts';

/**
 * Parses `input` by `schema`. Throws `bad_request` with all issues. `otherIssues`, which were found outside of `input`,
 * come first.
 */
export function parseOrBadRequest<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
  otherIssues: readonly string[] = [],
): z.output<Schema> {
  const parsed = schema.safeParse(input);
  if (parsed.success && otherIssues.length === 0) return parsed.data;
  const issues = [...otherIssues, ...(parsed.success ? [] : formatIssues(parsed.error))];
  throw gatewayError('bad_request', { message: issues.join('; ') });
}
