import type { ConsoleContext } from './route.ts';

/** Returns the path of a page in the project, e.g. of `/keys`. Null and undefined values are left out of the query. */
export function projectPath(
  { project }: { readonly project: Pick<ConsoleContext['project'], 'slug'> },
  page: string,
  query: Readonly<Record<string, string | null | undefined>> = {},
): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== null && entry[1] !== undefined);
  const text = new URLSearchParams(given).toString();
  return `/console/p/${project.slug}${page}${text === '' ? '' : `?${text}`}`;
}
