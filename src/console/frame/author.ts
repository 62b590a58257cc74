/**
 * Formats the author of a memory or another change. Authors are stored as `key:<prefix>`, `person:<id>` or the name of
 * a part of the gateway.
 */
import { isUuid } from '../../core/ids.ts';
import { type Html, html } from './html.ts';

export type FindNames = (ids: readonly string[]) => Promise<ReadonlyMap<string, string>>;

const personPrefix = 'person:';
const keyPrefix = 'key:';

export function authorOf({ person }: { readonly person: { readonly id: string } }): string {
  return `${personPrefix}${person.id}`;
}

export function findAuthors(findNames: FindNames, authors: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const ids = authors.flatMap((author) => (author.startsWith(personPrefix) ? [author.slice(personPrefix.length)] : []));
  return findNames([...new Set(ids)].filter(isUuid));
}

export function authorName(author: string, names: ReadonlyMap<string, string>): Html | string {
  if (author.startsWith(personPrefix)) return names.get(author.slice(personPrefix.length)) ?? 'A person without an account';
  if (author.startsWith(keyPrefix)) return html`Key <code>${author.slice(keyPrefix.length)}</code>`;
  return author;
}
