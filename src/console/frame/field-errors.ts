/** Finds the error messages for each field of a rejected form. */
import { formatIssues, type Issue } from '../../core/error-messages.ts';
import { sentence } from './values.ts';

export interface FieldErrors {
  /** Returns all errors about a field and its members as sentences. Undefined if the field is fine. */
  of(name: string): string | undefined;
  /** Like `of`, but leaves out errors about members of the field. */
  at(path: string): string | undefined;
}

export function createFieldErrors(issues: readonly Issue[]): FieldErrors {
  const describe = (name: string, isAbout: (path: string) => boolean): string | undefined => {
    const about = issues.filter(({ path }) => isAbout(path));
    return about.length === 0
      ? undefined
      : sentence(formatIssues(about.map((issue) => ({ ...issue, path: issue.path.slice(name.length + 1) }))));
  };
  return {
    of: (name) => describe(name, (path) => path === name || path.startsWith(`${name}.`)),
    at: (name) => describe(name, (path) => path === name),
  };
}

export const noErrors = createFieldErrors([]);

/** A form that is shown again, with the person's input. */
export interface SubmittedForm {
  readonly form: URLSearchParams;
  readonly errors: FieldErrors;
}
