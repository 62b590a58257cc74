/**
 * Describes the pages and actions of the console. Before `router.ts` runs one of them, it checks the session, the role
 * and the CSRF rules, and it writes the audit row of every action. The page folders export lists of routes, and nothing
 * else registers URLs.
 */

import type { Cookie } from '../../http/cookies.ts';
import type { Role, Session } from '../../people/person.ts';
import type { Project } from '../../projects/projects.ts';
import type { Asset } from './assets.ts';
import type { FieldErrors } from './field-errors.ts';
import type { Html } from './html.ts';

/**
 * Who may open a route:
 * - `member` and `owner` need a role in the project of the URL.
 * - `person` is anyone who is signed in.
 * - `admin` is for deployment admins.
 * - `anyone` doesn't need a session.
 *
 * People without a role in the project get a 404. Members get a 403 on routes for owners.
 */
export type Access = 'member' | 'owner' | 'person' | 'admin' | 'anyone';

interface RouteBase {
  /**
   * An Express path such as `/keys` or `/calls/:id`. It's below `/console/p/:project` for `member` and `owner`, below
   * `/console` for `person` and `admin`, and below `/` for `anyone`. The CSV of a page is a route of its own, with the
   * path of the page plus `.csv`.
   */
  readonly path: string;
  readonly access: Access;
}

export interface PageRoute extends RouteBase {
  readonly method: 'get';
  handle(context: ConsoleContext): Promise<PageResult>;
}

/** A route that changes something. We write its audit row before `handle` runs and add the outcome afterwards. */
export interface ActionRoute extends RouteBase {
  readonly method: 'post';
  /**
   * The name of the action in the audit log, such as `key.issue`. Null if there's nothing to audit, because the action
   * doesn't change anything (e.g. a dry run).
   */
  readonly action: string | null;
  /** How large the form may be. Defaults to 1 MiB. */
  readonly maxBytes?: number;
  /**
   * Throws a GatewayError if the input is invalid. We then call `invalidForm`, if there is one, to show the form again.
   */
  handle(context: ConsoleContext, form: URLSearchParams): Promise<ActionResult>;
  /**
   * Returns the form with the rejected input. We send it with status 422 and the error message above it. If a route
   * doesn't have this function, people get the error page.
   */
  invalidForm?(context: ConsoleContext, form: URLSearchParams, errors: FieldErrors): Promise<PageContent>;
}

export type ConsoleRoute = PageRoute | ActionRoute;

export function get(path: string, access: Access, handle: PageRoute['handle']): PageRoute {
  return { method: 'get', path, access, handle };
}

export function post(
  path: string,
  options: Pick<ActionRoute, 'access' | 'action' | 'maxBytes' | 'invalidForm'>,
  handle: ActionRoute['handle'],
): ActionRoute {
  return { method: 'post', path, ...options, handle };
}

export interface ConsoleContext {
  /** Throws if there's no session, which can happen on routes with access `anyone`. Use `visitor` there. */
  readonly session: Session;
  readonly visitor: Session | null;
  /**
   * The project in the URL. On routes with access `person`, `admin` or `anyone` there is none, so reading this throws.
   */
  readonly project: Project;
  /** The person's role in `project`. Deployment admins are owners of every project. */
  readonly role: Role;
  /** The URL as requested. Filters and paging are in its query. */
  readonly url: URL;
  /**
   * The scheme and host that people and applications use to reach the gateway. That's the public URL from the
   * configuration, or the one of the request if there is none.
   */
  readonly origin: string;
  readonly params: Readonly<Record<string, string>>;
  /**
   * The IANA name of the person's time zone. If they haven't chosen any, we use the project's reporting time zone, or
   * `UTC` if the page has no project. Every chart and export should mention it.
   */
  readonly zone: string;
  /** The CSRF token. `form()` adds it to every form as a hidden field. */
  readonly csrfToken: string;
  readonly now: number;
  /** The client's network address. `src/http/client-address.ts` explains how we find it behind proxies. */
  readonly remoteAddress: string;
  readonly userAgent: string;
  readonly cookies: Readonly<Record<string, string>>;
  /** True if the browser uses HTTPS, even if a proxy terminates it. Cookies then get the Secure attribute. */
  readonly secure: boolean;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

export interface PageContent {
  readonly kind: 'page';
  /** Used as the heading of the page and the title of the document, so it's plain text. */
  readonly title: string;
  readonly content: Html;
  readonly status?: number;
  /** Shown to the right of the heading. */
  readonly actions?: Html;
  /** The pages above this one, with the topmost first. */
  readonly breadcrumbs?: readonly { readonly label: string; readonly href: string }[];
  /** Scripts for this page only, created with `defineAsset`. They're loaded with `defer`. */
  readonly scripts?: readonly Asset[];
  readonly styles?: readonly Asset[];
  readonly setCookies?: readonly Cookie[];
}

export type PageResult =
  | PageContent
  /** We stream the rows and escape their values, including those that a spreadsheet would evaluate as formulas. */
  | {
      readonly kind: 'csv';
      readonly fileName: string;
      readonly header: readonly string[];
      readonly rows: CsvRows;
    }
  /** Just a part of a page, which htmx puts into the page that's open. */
  | { readonly kind: 'fragment'; readonly content: Html }
  | { readonly kind: 'download'; readonly fileName: string; readonly contentType: string; readonly body: string }
  /**
   * `to` is a path on this site, unless `external` is set. Then it's a URL of another site, e.g. of an identity
   * provider.
   */
  | {
      readonly kind: 'redirect';
      readonly to: string;
      readonly external?: boolean;
      readonly notice?: string;
      readonly setCookies?: readonly Cookie[];
    };

export type CsvRows = AsyncIterable<readonly CsvValue[]> | Iterable<readonly CsvValue[]>;

export type CsvValue = string | number | bigint | boolean | null;

/** Reverts the action that has just run. People get a button for this next to the notice. */
export interface Undo {
  readonly action: string;
  readonly values?: Readonly<Record<string, string>>;
}

export interface RedirectResult {
  readonly kind: 'redirect';
  /** Has to be a path on this site. */
  readonly to: string;
  readonly notice?: string;
  /** Adds a button that reverts the action. It's next to the `notice`, so set that as well. */
  readonly undo?: Undo;
  readonly setCookies?: readonly Cookie[];
  /**
   * We add this to the audit row. Ids, names, and old and new values of settings are fine, but leave out texts of
   * memories, secrets and subjects.
   */
  readonly audit?: Readonly<Record<string, unknown>>;
}

export type ActionResult =
  | RedirectResult
  /** We use this for pages that people can only see once, e.g. with a new key. */
  | { readonly kind: 'page'; readonly page: PageContent; readonly audit?: Readonly<Record<string, unknown>> }
  | { readonly kind: 'fragment'; readonly content: Html; readonly audit?: Readonly<Record<string, unknown>> }
  | {
      readonly kind: 'download';
      readonly fileName: string;
      readonly contentType: string;
      readonly body: string;
      readonly audit?: Readonly<Record<string, unknown>>;
    }
  /** Streams bytes, e.g. the response in the playground. If there's a `fileName`, the browser downloads them. */
  | {
      readonly kind: 'stream';
      readonly fileName?: string;
      readonly contentType: string;
      readonly chunks: AsyncIterable<Uint8Array>;
      readonly audit?: Readonly<Record<string, unknown>>;
    };
