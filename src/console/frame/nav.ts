/** Builds the navigation from the pages that exist and that the person may open. */

import { isUuid } from '../../core/ids.ts';
import type { Role } from '../../people/person.ts';
import { endUsersPath } from './end-user.ts';
import { pageParameter } from './navigation.ts';
import type { ConsoleRoute } from './route.ts';

export interface NavLink {
  readonly label: string;
  readonly href: string;
  readonly isCurrent: boolean;
}

export interface NavGroup {
  readonly label: string;
  readonly links: readonly NavLink[];
}

/** Paths that start with `/admin/` are relative to `/console`. All other paths are relative to the project. */
const groups: readonly (readonly [label: string, entries: readonly (readonly [label: string, path: string])[]])[] = [
  [
    'Usage',
    [
      ['Overview', '/overview'],
      ['Explore', '/explore'],
      ['Calls', '/calls'],
      ['End users', endUsersPath],
      ['Playground', '/playground'],
      ['Getting started', '/getting-started'],
    ],
  ],
  [
    'Memory',
    [
      ['Memory', '/memory'],
      ['Conversations', '/conversations'],
      ['Pages', '/pages'],
      ['Graph', '/graph'],
      ['Batches', '/batches'],
    ],
  ],
  [
    'Configuration',
    [
      ['Keys', '/keys'],
      ['Applications', '/applications'],
      ['Routing', '/routing'],
      ['Content rules', '/rules'],
      ['Prices', '/admin/prices'],
    ],
  ],
  [
    'Project',
    [
      ['Members', '/members'],
      ['Audit', '/audit'],
      ['Project settings', '/project'],
      ['Memory settings', '/settings'],
      ['Erase a subject', '/erase'],
    ],
  ],
  [
    'Deployment',
    [
      ['Deployment overview', '/admin/overview'],
      ['Projects', '/admin/projects'],
      ['People', '/admin/people'],
      ['Audit', '/admin/audit'],
    ],
  ],
];

export interface Navigation {
  /**
   * Returns the groups that have at least one link. If `slug` and `role` are null, these are only the groups of the
   * deployment.
   */
  groupsFor(view: {
    readonly path: string;
    readonly slug: string | null;
    readonly role: Role | null;
    readonly isAdmin: boolean;
  }): NavGroup[];
  /**
   * Returns the page that shows the same in another project: its path below the project, with the query. `page` is the
   * path below the current project, and null if there is none. If the page doesn't exist there, or the person may not
   * open it, this is the list that the page belongs to, or else the first page of a project.
   */
  samePage(page: string | null, query: URLSearchParams, role: Role): string;
}

/**
 * The parts of a query that we drop on the way to another project: the position in a list, keys, the call of a
 * playground, and the consent to read all calls, which may be far more there.
 */
function isOfProject([name, value]: readonly [string, string]): boolean {
  // Some ids stay valid in other projects: those of end users and tasks can be UUIDs, and the `from` of a period is a
  // date.
  return name === pageParameter || name === 'rows' || name === 'key' || name === 'not_key' || (name === 'from' && isUuid(value));
}

export function createNavigation(routes: readonly ConsoleRoute[]): Navigation {
  const access = new Map(routes.filter(({ method }) => method === 'get').map((route) => [route.path, route.access]));
  const lists = groups.flatMap(([, entries]) => entries.map(([, path]) => path));
  const start = firstPage(routes) ?? '';
  return {
    groupsFor({ path, slug, role, isAdmin }) {
      const isAllowed = (page: string): boolean => {
        const needed = access.get(page);
        if (needed === 'admin') return isAdmin;
        if (needed === 'person') return true;
        return needed === 'member' ? role !== null : needed === 'owner' && role === 'owner';
      };
      const toLink = ([label, page]: readonly [string, string]): NavLink => {
        const href = page.startsWith('/admin/') ? `/console${page}` : `/console/p/${slug}${page}`;
        return { label, href, isCurrent: path === href || path.startsWith(`${href}/`) };
      };
      const all = groups.map(([label, entries]) => ({ label, links: entries.filter(([, page]) => isAllowed(page)).map(toLink) }));
      return all.filter(({ links }) => links.length > 0);
    },
    samePage(page, query, role) {
      if (page === null) return start;
      const mayOpen = (path: string): boolean => {
        const needed = access.get(path);
        return needed === 'member' || (needed === 'owner' && role === 'owner');
      };
      const pattern = page.startsWith(`${endUsersPath}/`) ? `${endUsersPath}/:subject` : page;
      if (mayOpen(pattern) && !pattern.endsWith('.csv')) {
        const kept = new URLSearchParams([...query].filter((entry) => !isOfProject(entry))).toString();
        return page + (kept === '' ? '' : `?${kept}`);
      }
      return lists.find((path) => page.startsWith(`${path}/`) && mayOpen(path)) ?? start;
    },
  };
}

/** Returns the path of the first project page that every member may open, or null if there is none. */
export function firstPage(routes: readonly ConsoleRoute[]): string | null {
  const paths = new Set(routes.filter(({ method, access }) => method === 'get' && access === 'member').map(({ path }) => path));
  return groups.flatMap(([, entries]) => entries.map(([, path]) => path)).find((path) => paths.has(path)) ?? null;
}
