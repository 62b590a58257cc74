/** Renders the links within a view: filters, paging, tabs and CSV. All state is in the query of the URL. */
import { anyOption, selectField, toOptions } from './form.ts';
import { type Html, html } from './html.ts';
import type { ConsoleContext } from './route.ts';

type View = Pick<ConsoleContext, 'url'>;

/** The query parameter for keyset pagination. It contains the key of the last row on the previous page. */
export const pageParameter = 'before';

/** Returns the URL of the view with a changed query. Null removes a parameter. */
export function withQuery({ url }: View, changes: Readonly<Record<string, string | number | null>>): string {
  const query = new URLSearchParams(url.searchParams);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  return url.pathname + (text === '' ? '' : `?${text}`);
}

/**
 * Renders the filters of a list as a GET form. `keep` are the parameters of other controls, which the form preserves.
 */
export function filterForm(
  view: View,
  fields: readonly Html[],
  { keep = [], submit = 'Apply' }: { readonly keep?: readonly string[]; readonly submit?: string } = {},
): Html {
  const kept = keep.flatMap((name) =>
    view.url.searchParams.getAll(name).map((value) => html`<input type="hidden" name="${name}" value="${value}">`),
  );
  const active = new Set([...view.url.searchParams].flatMap(([name, value]) => (keep.includes(name) || value === '' ? [] : [name])));
  active.delete(pageParameter);
  const isFolded = fields.length > maxUnfolded && submit === 'Apply';
  const reset = [...view.url.searchParams.keys()].some((name) => !keep.includes(name));
  return html`${isFolded ? filtersButton(active.size) : ''}<form class="filters"${isFolded ? foldedForm : ''} method="get" action="${view.url.pathname}" role="search" aria-label="Filters">${kept}${fields}
<div class="filter-actions"><button class="button">${submit}</button>${
    reset ? html`<a class="button plain" href="${view.url.pathname}">Reset</a>` : ''
  }</div></form>`;
}

/** Renders a select for a filter form. `labels` maps values to their labels. We always add an empty choice. */
export function filterSelect({ url }: View, name: string, label: string, labels: Readonly<Record<string, string>>): Html {
  return selectField({ name, label, value: url.searchParams.get(name), options: [anyOption, ...toOptions(labels)] });
}

/** A form with more fields than this is collapsed on narrow screens. */
const maxUnfolded = 2;

/** Attributes for a filter form that's hidden on narrow screens until somebody presses `filtersButton`. */
export const foldedForm = html` id="filters" popover`;

/** Only shown on narrow screens, because wide ones show the whole form. */
export function filtersButton(active: number): Html {
  return html`<button class="button filters-button" type="button" popovertarget="filters">Filters${active === 0 ? '' : ` (${active})`}</button>`;
}

/**
 * Renders links to the next and first page. `next` is the key of the last row on this page, or null on the last page.
 */
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

/** Links to the CSV of the view, which has the same path with `.csv` and the same query without paging. */
export function csvLink(view: View): Html {
  const path = withQuery(view, { [pageParameter]: null });
  const [before = '', query] = path.split('?', 2);
  return html`<a class="button plain" href="${before}.csv${query === undefined ? '' : `?${query}`}" download>Export CSV</a>`;
}

interface Tab {
  readonly label: string;
  readonly href: string;
  readonly current: boolean;
}

export function tabs(label: string, items: readonly Tab[]): Html {
  return html`<nav class="tabs" aria-label="${label}">${items.map(
    (item) => html`<a href="${item.href}"${item.current ? html` aria-current="page"` : ''}>${item.label}</a>`,
  )}</nav>`;
}
