/** Links within a view: filters, paging, tabs, CSV. All state is in the query of the URL. */
import { type Html, html } from './html.ts';
import type { ConsoleContext } from './route.ts';

type View = Pick<ConsoleContext, 'url'>;

/** Query parameter of keyset paging: the key after which the page begins. */
export const pageParameter = 'before';

/** The URL of the view with other query parameters; null removes one. */
export function withQuery({ url }: View, changes: Readonly<Record<string, string | number | null>>): string {
  const query = new URLSearchParams(url.searchParams);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  return url.pathname + (text === '' ? '' : `?${text}`);
}

/** Filters of a list, as a GET form to the same page. Empty fields are ignored; `keep` names parameters of other controls to carry along. */
export function filterForm(
  view: View,
  fields: readonly Html[],
  { keep = [], submit = 'Apply' }: { readonly keep?: readonly string[]; readonly submit?: string } = {},
): Html {
  const kept = keep.flatMap((name) =>
    view.url.searchParams.getAll(name).map((value) => html`<input type="hidden" name="${name}" value="${value}">`),
  );
  const reset = [...view.url.searchParams.keys()].some((name) => !keep.includes(name));
  return html`<form class="filters" method="get" action="${view.url.pathname}" role="search" aria-label="Filters">${kept}${fields}
<div class="filter-actions"><button class="button">${submit}</button>${
    reset ? html`<a class="button plain" href="${view.url.pathname}">Reset</a>` : ''
  }</div></form>`;
}

/** Keyset paging: `next` is the key of the last row shown, null on the last page. */
export function pager(
  view: View,
  next: string | null,
  labels: { readonly first: string; readonly next: string } = { first: 'Newest', next: 'Older' },
): Html | string {
  const isFirst = !view.url.searchParams.has(pageParameter);
  if (isFirst && next === null) return '';
  return html`<nav class="pager" aria-label="Pages">${
    isFirst ? '' : html`<a class="button" href="${withQuery(view, { [pageParameter]: null })}">${labels.first}</a>`
  }${next === null ? '' : html`<a class="button" rel="next" href="${withQuery(view, { [pageParameter]: next })}">${labels.next}</a>`}</nav>`;
}

/** The same view as CSV: same path with `.csv`, same query without paging. */
export function csvLink(view: View): Html {
  const path = withQuery(view, { [pageParameter]: null });
  const [before = '', query] = path.split('?', 2);
  return html`<a class="button plain" href="${before}.csv${query === undefined ? '' : `?${query}`}" download>Export CSV</a>`;
}

export interface Tab {
  readonly label: string;
  readonly href: string;
  readonly current: boolean;
}

export function tabs(label: string, items: readonly Tab[]): Html {
  return html`<nav class="tabs" aria-label="${label}">${items.map(
    (item) => html`<a href="${item.href}"${item.current ? html` aria-current="page"` : ''}>${item.label}</a>`,
  )}</nav>`;
}
