/** Finds the error messages for each field of a rejected form. */
import { formatIssues, type Issue } from '../../core/error-messages.ts';
import { sentence } from './values.ts';

export interface FieldErrors {
  /** Returns the errors of a field and its members as sentences. Undefined if there are none. */
  of(name: string): string | undefined;
  /** Like `of`, but only returns errors for exactly this path and not for its members. */
  at(path: string): string | undefined;
}

export function createFieldErrors(issues: readonly Issue[]): FieldErrors {
  const describe = (name: string, isAbout: (path: string) => boolean): string | undefined => {
    const about = issues.filter(({ path }) => isAbout(path));
    const inside = about.map(({ path, message }) => ({
      path: path
        .slice(name.length + 1)
        .split('.')
        .map(describeSegment)
        .join(', '),
      message,
    }));
    return about.length === 0 ? undefined : sentence(formatIssues(inside));
  };
  return {
    of: (name) => describe(name, (path) => path === name || path.startsWith(`${name}.`)),
    at: (name) => describe(name, (path) => path === name),
  };
}

/** Describes a part of a path, where people count the entries of a list from 1. */
export function describeSegment(segment: string): string {
  return /^\d+$/.test(segment) ? `entry ${Number(segment) + 1}` : segment;
}

export const noErrors = createFieldErrors([]);

/** A rejected form with the person's input and the errors. */
export interface SubmittedForm {
  readonly form: URLSearchParams;
  readonly errors: FieldErrors;
}
