import type { ConsoleContext } from './route.ts';

/** Returns the path of a project page such as `/keys`. Query values that are null or undefined are left out. */
export function projectPath(
  { project }: Pick<ConsoleContext, 'project'>,
  page: string,
  query: Readonly<Record<string, string | null | undefined>> = {},
): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== null && entry[1] !== undefined);
  const text = new URLSearchParams(given).toString();
  return `/console/p/${project.slug}${page}${text === '' ? '' : `?${text}`}`;
}
