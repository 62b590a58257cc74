/**
 * Builds links to pages of end users, whose path contains the subject. If only the SHA-256 is known, it goes into the
 * query (`/end-users?sha256=9f86…`), because in the path it could be mistaken for a subject.
 */
import { hashSubjectHex } from '../../core/subject.ts';
import { type Html, html } from './html.ts';
import { projectPath } from './project-path.ts';
import type { ConsoleContext } from './route.ts';

export const endUsersPath = '/end-users';
export const hashParameter = 'sha256';

type View = Pick<ConsoleContext, 'project'>;

export function endUserPath(context: View, subject: string): string {
  // Link by hash, because browsers resolve `.` and `..` in a path even if they're encoded.
  if (subject === '.' || subject === '..') return endUserPathOfHash(context, hashSubjectHex(subject));
  return projectPath(context, `${endUsersPath}/${encodeURIComponent(subject)}`);
}

export function endUserPathOfHash(context: View, sha256: string): string {
  return projectPath(context, endUsersPath, { [hashParameter]: sha256 });
}

export function endUserLink(context: View, subject: string): Html {
  return html`<a class="cut" title="${subject}" href="${endUserPath(context, subject)}">${subject}</a>`;
}
