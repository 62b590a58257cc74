import type { z } from 'zod';
import type { Issue } from './error-messages.ts';
import { gatewayError } from './errors.ts';

/**
 * Parses `input` with `schema`. If there are any issues, throws `bad_request` with all of them. `otherIssues` are
 * issues that the caller has already found, and come first.
 */
export function parseOrBadRequest<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
  otherIssues: readonly Issue[] = [],
): z.output<Schema> {
  const parsed = parseWithIssues(schema, input);
  const issues = [...otherIssues, ...parsed.issues];
  if (!parsed.success || issues.length > 0) throw gatewayError('bad_request', { issues });
  return parsed.data;
}

/** Like zod's `safeParse`, but uses our own error messages if the schema doesn't define one. */
export function parseWithIssues<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
): z.ZodSafeParseResult<z.output<Schema>> & { readonly issues: Issue[] } {
  const parsed = schema.safeParse(input, { error: describeIssue });
  const issues = parsed.error?.issues.map(({ path, message }) => ({ path: path.join('.'), message })) ?? [];
  return { ...parsed, issues };
}

const kinds: Readonly<Record<string, string>> = {
  ...{ string: 'text', number: 'a number', int: 'a whole number', boolean: 'true or false', array: 'a list' },
  ...{ object: 'an object', record: 'an object' },
};

/** Returns our own message for a zod issue. If this returns undefined, zod uses its default message. */
export function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type': {
      if (issue.input === undefined) return 'is required';
      const kind = kinds[issue.expected];
      return kind === undefined ? undefined : `must be ${kind}`;
    }
    case 'invalid_value':
      return issue.values.length > 1 ? `must be ${issue.values.join(' or ')}` : undefined;
    case 'too_small':
      if (issue.origin === 'number' || issue.origin === 'int') return `must be at least ${issue.minimum}`;
      return issue.minimum === 1 ? 'must not be empty' : undefined;
    case 'too_big':
      if (issue.origin === 'number' || issue.origin === 'int') return `must be at most ${issue.maximum}`;
      if (issue.origin === 'array') return `must have at most ${issue.maximum} entries`;
      return issue.origin === 'string' ? `must have at most ${issue.maximum} characters` : undefined;
    case 'invalid_format':
      return issue.format === 'uuid' ? `must be a UUID, but is ${quoteStart(issue.input)}` : undefined;
    case 'unrecognized_keys':
      return `there is no field named ${issue.keys.map((key) => `"${key}"`).join(' or ')}`;
    case 'invalid_key':
      return issue.issues[0]?.message;
    default:
      return undefined;
  }
}

const maxQuoted = 60;

function quoteStart(input: unknown): string {
  const text = String(input);
  return text.length <= maxQuoted ? JSON.stringify(text) : `${JSON.stringify(text.slice(0, maxQuoted).toWellFormed())}…`;
}
