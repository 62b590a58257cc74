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

/** The first page of a project, which every member may open. */
export const startPage = '/overview';

/**
 * The groups of the navigation, with the label and the path of each link. Paths that start with `/admin/` are relative
 * to `/console`, and all others are relative to the project.
 */
const groups: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Usage: {
    Overview: startPage,
    Explore: '/explore',
    Calls: '/calls',
    'End users': endUsersPath,
    Playground: '/playground',
    'Getting started': '/getting-started',
  },
  Memory: { Memory: '/memory', Conversations: '/conversations', Pages: '/pages', Graph: '/graph', Batches: '/batches' },
  Configuration: {
    Keys: '/keys',
    Applications: '/applications',
    Routing: '/routing',
    'Content rules': '/rules',
    Prices: '/admin/prices',
  },
  Project: {
    Members: '/members',
    Audit: '/audit',
    'Project settings': '/project',
    'Memory settings': '/settings',
    'Erase a subject': '/erase',
  },
  Deployment: {
    'Deployment overview': '/admin/overview',
    Projects: '/admin/projects',
    People: '/admin/people',
    Audit: '/admin/audit',
  },
};
const allPaths = Object.values(groups).flatMap((entries) => Object.values(entries));

export interface Navigation {
  /** Returns the groups that have at least one link. If `slug` and `role` are null, we leave out pages of projects. */
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
 * Checks whether we have to drop this query parameter when somebody switches to another project. That's the case for
 * the position in a list, for keys, and for the call in the playground. We also drop the consent to read all calls
 * (`rows`), because another project may have many more.
 */
function isOfProject([name, value]: readonly [string, string]): boolean {
  // A UUID doesn't always belong to the project, because end users and tasks have the same ids in other projects.
  // `from` is either the UUID of a call or the start of a period.
  return name === pageParameter || name === 'rows' || name === 'key' || name === 'not_key' || (name === 'from' && isUuid(value));
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
      const toLink = ([label, page]: [string, string]): NavLink => {
        const href = page.startsWith('/admin/') ? `/console${page}` : `/console/p/${slug}${page}`;
        return { label, href, isCurrent: path === href || path.startsWith(`${href}/`) };
      };
      return Object.entries(groups).flatMap(([label, entries]) => {
        const links = Object.entries(entries).filter(([, page]) => isAllowed(page));
        return links.length === 0 ? [] : { label, links: links.map(toLink) };
      });
    },
    samePage(page, query, role) {
      if (page === null) return startPage;
      const mayOpen = (path: string): boolean => {
        const needed = access.get(path);
        return needed === 'member' || (needed === 'owner' && role === 'owner');
      };
      const pattern = page.startsWith(`${endUsersPath}/`) ? `${endUsersPath}/:subject` : page;
      if (mayOpen(pattern) && !pattern.endsWith('.csv')) {
        const kept = new URLSearchParams([...query].filter((entry) => !isOfProject(entry))).toString();
        return page + (kept === '' ? '' : `?${kept}`);
      }
      return allPaths.find((path) => page.startsWith(`${path}/`) && mayOpen(path)) ?? startPage;
    },
  };
}
