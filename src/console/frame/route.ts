/**
 * Describes the pages and actions of the console. `router.ts` checks the session, the role and the CSRF rules before it
 * runs one, and it writes the audit row of every action. The page folders export lists of routes, and nothing else
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
   * An Express path such as `/keys` or `/calls/:id`. It's relative to `/console/p/:project` for `member` and `owner`,
   * to `/console` for `person` and `admin`, and to `/` for `anyone`. A page's CSV is a separate route, whose path is
   * that of the page with the suffix `.csv`.
   */
  readonly path: string;
  readonly access: Access;
}

export interface PageRoute extends RouteBase {
  readonly method: 'get';
  handle(context: ConsoleContext): Promise<PageResult>;
}

/**
 * A route that changes something. Its audit row is written before `handle` runs and completed with the outcome
 * afterwards.
 */
export interface ActionRoute extends RouteBase {
  readonly method: 'post';
  /**
   * The name in the audit log, such as `key.issue`. If this is null, no audit row is written, because the action
   * changes nothing (e.g. a dry run).
   */
  readonly action: string | null;
  /** The maximum size of the form. Defaults to 1 MiB. */
  readonly maxBytes?: number;
  /**
   * Throws a GatewayError if the input is invalid. If there is an `invalidForm`, it then shows the form again with the
   * input.
   */
  handle(context: ConsoleContext, form: URLSearchParams): Promise<ActionResult>;
  /**
   * Returns the page to show again with status 422 and the error message above it. Without this function we show the
   * error page.
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
  /**
   * On routes with access `anyone` there may be no session, and then reading this throws. Use `visitor` on those
   * routes.
   */
  readonly session: Session;
  readonly visitor: Session | null;
  /** The project of the URL. Reading it throws on routes with access `person`, `admin` or `anyone`. */
  readonly project: Project;
  /** The person's role in `project`. Deployment admins are owners of every project. */
  readonly role: Role;
  /** The requested URL. Its query contains the filters and the paging. */
  readonly url: URL;
  /**
   * The scheme and host under which people and applications reach the gateway. It's the configured public URL, or else
   * that of the request.
   */
  readonly origin: string;
  readonly params: Readonly<Record<string, string>>;
  /**
   * The IANA name of the person's time zone. If they haven't chosen one, it's the project's reporting time zone, or
   * `UTC` on pages without a project. Every chart and export should show it.
   */
  readonly zone: string;
  /** The CSRF token, which `form()` adds to every form as a hidden field. */
  readonly csrfToken: string;
  readonly now: number;
  /** The client's network address. See `src/http/client-address.ts` for how we find it behind proxies. */
  readonly remoteAddress: string;
  readonly userAgent: string;
  readonly cookies: Readonly<Record<string, string>>;
  /** True if the browser uses HTTPS, even if a proxy terminates it. Cookies then get the attribute Secure. */
  readonly secure: boolean;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

export interface PageContent {
  readonly kind: 'page';
  /** Used as the heading and the document title, so it's plain text. */
  readonly title: string;
  readonly content: Html;
  readonly status?: number;
  /** Shown to the right of the heading. */
  readonly actions?: Html;
  /** Parent pages, from the top level down. */
  readonly breadcrumbs?: readonly { readonly label: string; readonly href: string }[];
  /** Scripts that only this page loads (with `defer`). Create them with `defineAsset`. */
  readonly scripts?: readonly Asset[];
  readonly styles?: readonly Asset[];
  readonly setCookies?: readonly Cookie[];
}

export type PageResult =
  | PageContent
  /** The rows are streamed. Values are escaped, including those that spreadsheets would evaluate as formulas. */
  | {
      readonly kind: 'csv';
      readonly fileName: string;
      readonly header: readonly string[];
      readonly rows: CsvRows;
    }
  /** A part of a page for htmx, without the layout. */
  | { readonly kind: 'fragment'; readonly content: Html }
  | { readonly kind: 'download'; readonly fileName: string; readonly contentType: string; readonly body: string }
  /** `to` is a path on this site. If `external` is set, it's a URL of another site, such as an identity provider. */
  | {
      readonly kind: 'redirect';
      readonly to: string;
      readonly external?: boolean;
      readonly notice?: string;
      readonly setCookies?: readonly Cookie[];
    };

export type CsvRows = AsyncIterable<readonly CsvValue[]> | Iterable<readonly CsvValue[]>;

export type CsvValue = string | number | bigint | boolean | null;

/** An action that takes back the one that has just run. It's offered as a button next to the notice. */
export interface Undo {
  /** The path that the button posts to. */
  readonly action: string;
  /** Hidden fields of the form. */
  readonly values?: Readonly<Record<string, string>>;
}

export interface RedirectResult {
  readonly kind: 'redirect';
  /** A path on this site. */
  readonly to: string;
  readonly notice?: string;
  /** Undoes this action. The button is next to the `notice`, so set that, too. */
  readonly undo?: Undo;
  readonly setCookies?: readonly Cookie[];
  /**
   * Stored in the audit row. It may contain ids, names, and old and new values of settings, but no texts of memories,
   * secrets or subjects.
   */
  readonly audit?: Readonly<Record<string, unknown>>;
}

export type ActionResult =
  | RedirectResult
  /** A page that can't be shown again, e.g. because it contains a new key. */
  | { readonly kind: 'page'; readonly page: PageContent; readonly audit?: Readonly<Record<string, unknown>> }
  | { readonly kind: 'fragment'; readonly content: Html; readonly audit?: Readonly<Record<string, unknown>> }
  | {
      readonly kind: 'download';
      readonly fileName: string;
      readonly contentType: string;
      readonly body: string;
      readonly audit?: Readonly<Record<string, unknown>>;
    }
  /** A stream of bytes, such as the playground's response. With a `fileName` it's a download. */
  | {
      readonly kind: 'stream';
      readonly fileName?: string;
      readonly contentType: string;
      readonly chunks: AsyncIterable<Uint8Array>;
      readonly audit?: Readonly<Record<string, unknown>>;
    };
