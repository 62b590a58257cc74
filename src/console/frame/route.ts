/**
 * A page or an action of the console, as data: `router.ts` checks the session, the role and the CSRF rules before it runs one, and writes the
 * audit row of every action. Page folders export lists of routes; nothing else registers URLs.
 */

import type { Cookie } from '../../http/cookies.ts';
import type { Role, Session } from '../../people/person.ts';
import type { Project } from '../../projects/projects.ts';
import type { Asset } from './assets.ts';
import type { FieldErrors } from './field-errors.ts';
import type { Html } from './html.ts';

/**
 * Who may open a route. `member` and `owner`: a role in the project of the URL. `person`: anybody who is signed in; `admin`: deployment admins;
 * `anyone`: no session needed. A stranger to a project gets 404, a member on an owner's route 403.
 */
export type Access = 'member' | 'owner' | 'person' | 'admin' | 'anyone';

interface RouteBase {
  /**
   * Express path below `/console/p/:project` (access `member`, `owner`), below `/console` (`person`, `admin`) or below `/` (`anyone`), such
   * as `/keys` or `/calls/:id`. The CSV of a page has the page's path with the suffix `.csv` and is another route.
   */
  readonly path: string;
  readonly access: Access;
}

export interface PageRoute extends RouteBase {
  readonly method: 'get';
  handle(context: ConsoleContext): Promise<PageResult>;
}

/** A change. Its audit row is written before `handle` runs, and completed with the outcome after. */
export interface ActionRoute extends RouteBase {
  readonly method: 'post';
  /** Name in the audit log, such as `key.issue`. Null for what changes nothing, such as a dry run: it has no audit row. */
  readonly action: string | null;
  /** Of the form; 1 MiB by default. */
  readonly maxBytes?: number;
  /** Throws GatewayError for invalid input; the page of `invalidForm` shows it without losing the input. */
  handle(context: ConsoleContext, form: URLSearchParams): Promise<ActionResult>;
  /** The page to show again (status 422) with the error message above it. Without it the error page is shown. */
  invalidForm?(context: ConsoleContext, form: URLSearchParams, errors: FieldErrors): Promise<PageContent>;
}

export type ConsoleRoute = PageRoute | ActionRoute;

export interface ConsoleContext {
  /** On routes with access `anyone` there may be none, and reading it throws; `visitor` is then null. */
  readonly session: Session;
  readonly visitor: Session | null;
  /** The project of the URL; on routes with access `person`, `admin` or `anyone` there is none, and reading it throws. */
  readonly project: Project;
  /** Role in `project`; `owner` for deployment admins. */
  readonly role: Role;
  /** The URL as requested; filters and paging are in its query. */
  readonly url: URL;
  /** Parameters of the path. */
  readonly params: Readonly<Record<string, string>>;
  /** IANA name of the project's reporting time zone; `UTC` by default. Name it on every chart and export. */
  readonly zone: string;
  /** For the hidden field of forms; `form()` of components.ts writes it. */
  readonly csrfToken: string;
  readonly now: number;
  /** Network address of the client; `src/http/client-address.ts` says what it is with proxies. */
  readonly remoteAddress: string;
  readonly userAgent: string;
  /** Cookies of the request. */
  readonly cookies: Readonly<Record<string, string>>;
  /** True over HTTPS, also in front of a proxy: cookies then have the attribute Secure. */
  readonly secure: boolean;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

/** Content of a page inside the layout. */
export interface PageContent {
  readonly kind: 'page';
  /** Plain text: heading and document title. */
  readonly title: string;
  readonly content: Html;
  readonly status?: number;
  /** Links or buttons at the right of the heading. */
  readonly actions?: Html;
  /** Pages above this one, outermost first. */
  readonly breadcrumbs?: readonly { readonly label: string; readonly href: string }[];
  /** Own script files (`defineAsset`), loaded with `defer` on this page only. */
  readonly scripts?: readonly Asset[];
  readonly styles?: readonly Asset[];
  readonly setCookies?: readonly Cookie[];
}

export type PageResult =
  | PageContent
  /** Rows are streamed as they come; values are escaped, also against formulas. */
  | {
      readonly kind: 'csv';
      readonly fileName: string;
      readonly header: readonly string[];
      readonly rows: CsvRows;
    }
  /** A part of a page for htmx, without layout. */
  | { readonly kind: 'fragment'; readonly content: Html }
  | { readonly kind: 'download'; readonly fileName: string; readonly contentType: string; readonly body: string }
  /** `external`: to another site, such as an identity provider; otherwise a path on this site. */
  | {
      readonly kind: 'redirect';
      readonly to: string;
      readonly external?: boolean;
      readonly notice?: string;
      readonly setCookies?: readonly Cookie[];
    };

export type CsvRows = AsyncIterable<readonly CsvValue[]> | Iterable<readonly CsvValue[]>;

export type CsvValue = string | number | bigint | boolean | null;

export type ActionResult =
  | {
      readonly kind: 'redirect';
      /** Path on this site. */
      readonly to: string;
      /** Shown once on the next page. */
      readonly notice?: string;
      readonly setCookies?: readonly Cookie[];
      /** For the audit row: ids, names, changed settings with old and new values; never texts of memories, secrets or subjects. */
      readonly audit?: Readonly<Record<string, unknown>>;
    }
  /** A page that can be shown this once, such as a new key. */
  | { readonly kind: 'page'; readonly page: PageContent; readonly audit?: Readonly<Record<string, unknown>> }
  | { readonly kind: 'fragment'; readonly content: Html; readonly audit?: Readonly<Record<string, unknown>> }
  | {
      readonly kind: 'download';
      readonly fileName: string;
      readonly contentType: string;
      readonly body: string;
      readonly audit?: Readonly<Record<string, unknown>>;
    }
  /** Bytes of a stream, such as the playground's response; with `fileName` a download. */
  | {
      readonly kind: 'stream';
      readonly fileName?: string;
      readonly contentType: string;
      readonly chunks: AsyncIterable<Uint8Array>;
      readonly audit?: Readonly<Record<string, unknown>>;
    };
