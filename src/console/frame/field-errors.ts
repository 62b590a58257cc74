/** What is wrong with the fields of a form that was rejected. */
import { formatIssues, type Issue } from '../../core/error-messages.ts';
import { sentence } from './values.ts';

export interface FieldErrors {
  /** The sentences about a field or a part of it; undefined without one. */
  of(name: string): string | undefined;
}

export function createFieldErrors(issues: readonly Issue[]): FieldErrors {
  return {
    of(name) {
      const about = issues.filter(({ path }) => path === name || path.startsWith(`${name}.`));
      return about.length === 0
        ? undefined
        : sentence(formatIssues(about.map((issue) => ({ ...issue, path: issue.path.slice(name.length + 1) }))));
    },
  };
}

/** For a form that was not submitted yet. */
export const noErrors = createFieldErrors([]);
