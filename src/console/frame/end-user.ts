/**
 * Links to an end user's page. The subject is a part of the path. If all we have is its SHA-256, that goes into the
 * query (`/end-users?sha256=9f86…`), because in the path it could just as well be somebody's subject.
 */
import { hashSubjectHex } from '../../core/subject.ts';
import { type Html, html } from './html.ts';
import { projectPath } from './project-path.ts';
import type { ConsoleContext } from './route.ts';

export const endUsersPath = '/end-users';
/** The form field that contains a hashed subject. */
export const hashParameter = 'sha256';

type View = Pick<ConsoleContext, 'project'>;

export function endUserPath(context: View, subject: string): string {
  // Browsers resolve `.` and `..` in a path, even if they're encoded.
  if (subject === '.' || subject === '..') return endUserPathOfHash(context, hashSubjectHex(subject));
  return projectPath(context, `${endUsersPath}/${encodeURIComponent(subject)}`);
}

export function endUserPathOfHash(context: View, sha256: string): string {
  return projectPath(context, endUsersPath, { [hashParameter]: sha256 });
}

export function endUserLink(context: View, subject: string): Html {
  return html`<a class="cut" title="${subject}" href="${endUserPath(context, subject)}">${subject}</a>`;
}
