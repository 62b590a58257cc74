import type { z } from 'zod';
import { formatIssues } from './error-messages.ts';
import { gatewayError } from './errors.ts';

/** Parses `input` by `schema`. Throws `bad_request` with all issues. */
export function parseOrBadRequest<Schema extends z.ZodType>(schema: Schema, input: unknown): z.output<Schema> {
  const parsed = schema.safeParse(input);
  if (!parsed.success) throw gatewayError('bad_request', { message: formatIssues(parsed.error).join('; ') });
  return parsed.data;
}
