import type { ConsoleContext } from './route.ts';

/** Path of a page of the project, such as `/keys`. */
export function projectPath({ project }: Pick<ConsoleContext, 'project'>, page: string): string {
  return `/console/p/${project.slug}${page}`;
}
