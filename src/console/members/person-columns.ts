/** Columns about an account, for the list of people and the page of a person. */
import type { PersonRecord } from '../../people/accounts.ts';
import { badge } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';

export function personBadges({ isAdmin, disabledAt, onlyProject }: PersonRecord): Html {
  return html`${disabledAt === null ? badge('active', 'good') : badge('disabled', 'bad')}${isAdmin ? html` ${badge('admin', 'accent')}` : ''}${onlyProject === null ? '' : html` ${badge('not confirmed', 'warning')}`}`;
}

export function signInMethods({ hasPassword, hasOidc }: PersonRecord): string {
  const methods = [hasPassword && 'password', hasOidc && 'identity provider'].filter((method) => method !== false);
  return methods.length === 0 ? 'Sign-in link' : methods.join(', ');
}
