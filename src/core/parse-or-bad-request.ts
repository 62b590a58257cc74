/** Validates inputs of callers, with the same sentences for the API and for the forms of the console. */
import type { z } from 'zod';
import type { Issue } from './error-messages.ts';
import { gatewayError } from './errors.ts';

/**
 * Parses `input` by `schema`. Throws `bad_request` with all issues. `otherIssues`, which were found outside of `input`,
 * come first.
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

/** As `safeParse`, with the issues in our own sentences unless the schema sets them. */
export function parseWithIssues<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
): z.ZodSafeParseResult<z.output<Schema>> & { readonly issues: Issue[] } {
  const parsed = schema.safeParse(input, { error: describeIssue });
  const issues = parsed.error?.issues.map(({ path, message }) => ({ path: path.join('.'), message })) ?? [];
  return { ...parsed, issues };
}

const kinds: Readonly<Record<string, string>> = {
  ...{ string: 'a text', number: 'a number', int: 'a whole number', boolean: 'true or false', array: 'a list' },
  ...{ object: 'an object', record: 'an object' },
};

/** Zod's error map. Returns undefined for an issue that zod's own sentence describes well enough. */
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
    case 'unrecognized_keys':
      return `there is no member named ${issue.keys.map((key) => `"${key}"`).join(' or ')}`;
    case 'invalid_key':
      return issue.issues[0]?.message;
    default:
      return undefined;
  }
}
