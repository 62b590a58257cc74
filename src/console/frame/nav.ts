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

/** Paths that start with `/admin/` are below `/console`, and all others are below the project. */
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
  /** Returns groups with at least one link. If `slug` and `role` are null, pages of projects are left out. */
  groupsFor(view: {
    readonly path: string;
    readonly slug: string | null;
    readonly role: Role | null;
    readonly isAdmin: boolean;
  }): NavGroup[];
  /**
   * Finds the page to show after switching to another project. `page` is the current path below the project, or null.
   * If the person can't open this page there, returns the list that it belongs to, or else the first page of the
   * project.
   */
  samePage(page: string | null, query: URLSearchParams, role: Role): string;
}

/**
 * Returns true for query parameters that only make sense in the current project: the position in a list, a key, the
 * call in a playground, and the consent to read all calls, of which another project may have many more.
 */
function isOfProject([name, value]: readonly [string, string]): boolean {
  // Don't drop all UUIDs, because those of end users and tasks stay valid in other projects. `from` can be a date as
  // well, namely the start of a period.
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

/** Returns the first project page that every member may open. Null if there's none. */
export function firstPage(routes: readonly ConsoleRoute[]): string | null {
  const paths = new Set(routes.filter(({ method, access }) => method === 'get' && access === 'member').map(({ path }) => path));
  return groups.flatMap(([, entries]) => entries.map(([, path]) => path)).find((path) => paths.has(path)) ?? null;
}
