import type { ConsoleContext } from './route.ts';

/** Path of a page of the project, such as `/keys`; absent values of the query are left out. */
export function projectPath(
  { project }: Pick<ConsoleContext, 'project'>,
  page: string,
  query: Readonly<Record<string, string | null | undefined>> = {},
): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== null && entry[1] !== undefined);
  const text = new URLSearchParams(given).toString();
  return `/console/p/${project.slug}${page}${text === '' ? '' : `?${text}`}`;
}
