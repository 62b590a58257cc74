/** Builds the navigation from the pages that exist and that the person may open. */
import type { Role } from '../../people/person.ts';
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

/** Paths that start with `/admin/` are below `/console`, and the others are below the project. */
const groups: readonly (readonly [label: string, entries: readonly (readonly [label: string, path: string])[]])[] = [
  [
    'Usage',
    [
      ['Overview', '/overview'],
      ['Explore', '/explore'],
      ['Calls', '/calls'],
      ['Playground', '/playground'],
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
}

export function createNavigation(routes: readonly ConsoleRoute[]): Navigation {
  const access = new Map(routes.filter(({ method }) => method === 'get').map((route) => [route.path, route.access]));
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
  };
}

/** Returns the path of the first project page that every member may open, or null if there is none. */
export function firstPage(routes: readonly ConsoleRoute[]): string | null {
  const paths = new Set(routes.filter(({ method, access }) => method === 'get' && access === 'member').map(({ path }) => path));
  return groups.flatMap(([, entries]) => entries.map(([, path]) => path)).find((path) => paths.has(path)) ?? null;
}
