/**
 * Types for the pages and actions of the console. Before running one, `router.ts` checks the session, the role and the
 * CSRF rules, and writes the audit row of every action. The page folders export lists of routes, and nothing else
 * registers URLs.
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

/**
 * A route that changes something. Its audit row is written before `handle` runs, and the outcome is added afterwards.
 */
export interface ActionRoute extends RouteBase {
  readonly method: 'post';
  /**
   * The action's name in the audit log, such as `key.issue`. Null if it changes nothing (e.g. a dry run), so that
   * there's nothing to audit.
   */
  readonly action: string | null;
  /**
   * The maximum size of the form in bytes. Defaults to 256 KiB. On routes with access `anyone`, it's always 16 KiB.
   */
  readonly maxBytes?: number;
  /**
   * Throws a GatewayError if the input is invalid. If the route has an `invalidForm`, people then see the form again.
   */
  handle(context: ConsoleContext, form: URLSearchParams): Promise<ActionResult>;
  /**
   * Returns the form with the rejected input, which is sent with status 422 and the error message above it. Without
   * this function, people get the error page.
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
  /** Throws without a session, which can happen on routes with access `anyone`. Use `visitor` there. */
  readonly session: Session;
  readonly visitor: Session | null;
  /** The project in the URL. Throws on routes with access `person`, `admin` or `anyone`, because they have none. */
  readonly project: Project;
  /** The person's role in `project`. Deployment admins count as owners of every project. */
  readonly role: Role;
  /** The requested URL, with filters and paging in its query. */
  readonly url: URL;
  /** The public scheme and host of the gateway, from the configuration or else from the request. */
  readonly origin: string;
  readonly params: Readonly<Record<string, string>>;
  /**
   * The IANA name of the person's time zone. Defaults to the project's reporting time zone, or `UTC` if the page has no
   * project. Every chart and export should mention it.
   */
  readonly zone: string;
  readonly csrfToken: string;
  readonly now: number;
  /** The client's network address (see `src/http/client-address.ts` for proxies). */
  readonly remoteAddress: string;
  readonly userAgent: string;
  readonly cookies: Readonly<Record<string, string>>;
  /** True if the browser uses HTTPS, even if a proxy terminates it. Cookies then have the Secure attribute. */
  readonly secure: boolean;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

export interface PageContent {
  readonly kind: 'page';
  /** Plain text, because it's also the title of the HTML document. */
  readonly title: string;
  readonly content: Html;
  readonly status?: number;
  readonly actions?: Html;
  /** The parent pages, from the top level down. */
  readonly breadcrumbs?: readonly { readonly label: string; readonly href: string }[];
  /** Scripts for this page only, created with `defineAsset` and loaded with `defer`. */
  readonly scripts?: readonly Asset[];
  readonly styles?: readonly Asset[];
  readonly setCookies?: readonly Cookie[];
}

export type PageResult = PageContent | CsvResult | Fragment | Download | (Redirect & { readonly external?: boolean });

/** Rows are streamed. Values are escaped, including those that a spreadsheet would evaluate as formulas. */
export interface CsvResult {
  readonly kind: 'csv';
  readonly fileName: string;
  readonly header: readonly string[];
  readonly rows: AsyncIterable<readonly CsvValue[]> | Iterable<readonly CsvValue[]>;
}

export type CsvValue = string | number | bigint | boolean | null;

/** A part of a page for htmx, without the layout. */
interface Fragment {
  readonly kind: 'fragment';
  readonly content: Html;
}

interface Download {
  readonly kind: 'download';
  readonly fileName: string;
  readonly contentType: string;
  readonly body: string;
}

interface Redirect {
  readonly kind: 'redirect';
  /** A path on this site, or with `external` the URL of another site, e.g. of an identity provider. */
  readonly to: string;
  readonly notice?: string;
  readonly setCookies?: readonly Cookie[];
}

export interface Undo {
  readonly action: string;
  readonly values?: Readonly<Record<string, string>>;
}

interface Audited {
  /**
   * Added to the audit row. Ids, names, and old and new values of settings are fine, but never texts of memories,
   * secrets or subjects.
   */
  readonly audit?: Readonly<Record<string, unknown>>;
}

export interface RedirectResult extends Redirect, Audited {
  /** Adds a button that reverts the action, next to the `notice`, which has to be set as well. */
  readonly undo?: Undo;
}

/** Streams bytes, e.g. the response in the playground. With a `fileName`, the browser downloads them. */
interface Stream {
  readonly kind: 'stream';
  readonly fileName?: string;
  readonly contentType: string;
  readonly chunks: AsyncIterable<Uint8Array>;
}

export type ActionResult =
  | RedirectResult
  /** For pages that can only be seen once, e.g. with a new key. */
  | ({ readonly kind: 'page'; readonly page: PageContent } & Audited)
  | ((Fragment | Download | Stream) & Audited);
