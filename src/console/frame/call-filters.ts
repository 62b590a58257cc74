/** Renders the form that filters calls, and a list of the active filters with a link to remove each of them. */
import { routes } from '../../core/call.ts';
import { errorSpecs } from '../../core/errors.ts';
import { type CallFilter, filterNames, hideOwnCalls, namesOf, noValue, parseCallFilter } from '../../usage/analytics/call-filter.ts';
import { anyOption, checkboxField, fieldset, type Option, selectField, textField, toOptions, withChosen } from './form.ts';
import { type Html, html } from './html.ts';
import { filtersButton, foldedForm, pageParameter, withQuery } from './navigation.ts';
import type { ConsoleContext } from './route.ts';
import { rangeParameters } from './time-range.ts';

export interface FilterChoices {
  readonly applications: readonly string[];
  readonly models: readonly string[];
  readonly keys: readonly { readonly prefix: string; readonly name: string }[];
}

export const filterLabels: Readonly<Record<string, string>> = {
  source: 'Application',
  model: 'Model',
  asked: 'Requested model',
  key: 'Key',
  task: 'Task',
  turn: 'Turn',
  agent: 'Agent',
  trigger: 'Trigger',
  canary: 'Canary of tier',
  control: 'Not the canary of tier',
  route: 'Route',
  code: 'Error code',
  cache: 'Cache',
  outcome: 'Outcome',
  status: 'Status',
  result: 'Result',
  failover: 'Failover',
  price: 'Price',
  person: 'Person',
  attempted: 'Attempted model',
  subject: 'End user',
  own: 'The gateway’s own calls',
  not_source: 'Application is not',
  not_model: 'Model is not',
  not_key: 'Key is not',
  not_code: 'Error code is not',
  not_status: 'Status is not',
  min_ms: 'Latency of at least',
  max_ms: 'Latency of at most',
  min_cost: 'Cost of at least',
  max_cost: 'Cost of at most',
};

const units: Readonly<Record<string, string>> = { min_ms: 'ms', max_ms: 'ms', min_cost: 'USD', max_cost: 'USD' };

/** Filters without a form field, which only links can set. */
const linkedFilters = ['asked', 'turn', 'agent', 'trigger', 'canary', 'control', 'person', 'attempted'];

/** Parses the filters of a view, and hides the gateway's own calls by default. */
export function readCallFilter({ url }: Pick<ConsoleContext, 'url'>): CallFilter {
  return hideOwnCalls(parseCallFilter(url.searchParams));
}

/**
 * Renders the filter form, with less common filters in a collapsed section. `keep` are query parameters to preserve,
 * and `results` are additional options for the filter by result.
 */
export function callFilterForm(
  { url }: Pick<ConsoleContext, 'url'>,
  filter: CallFilter,
  {
    choices,
    fields = [],
    keep = [],
    results = [],
  }: {
    readonly choices: FilterChoices;
    readonly fields?: readonly Html[];
    readonly keep?: readonly string[];
    readonly results?: readonly Option[];
  },
): Html {
  const base = (name: keyof CallFilter) => ({ name, label: labelOf(name), value: filter[name] });
  const text = (name: keyof CallFilter, suggestions?: readonly string[]): Html =>
    textField({ ...base(name), placeholder: 'Any', autocomplete: 'off', ...(suggestions && { suggestions }) });
  const select = (name: keyof CallFilter, options: readonly (Option | string)[]): Html =>
    selectField({ ...base(name), options: withChosen([anyOption, ...options], filter[name]) });
  const number = (name: keyof CallFilter): Html => {
    const unit = units[name];
    return textField({ ...base(name), type: 'number', min: 0, step: 'any', placeholder: 'Any', ...(unit !== undefined && { unit }) });
  };
  const keys = choices.keys.map(toKeyOption);
  const codes = Object.keys(errorSpecs);
  const statuses = ['2xx', '4xx', '5xx'];
  const rare = {
    route: select('route', routes),
    code: text('code', codes),
    cache: select('cache', toOptions({ hit: 'Hit', miss: 'Miss', [noValue]: 'None' })),
    outcome: select(
      'outcome',
      toOptions({
        ok: 'OK',
        refused: 'Refused',
        failed: 'Failed',
        interrupted: 'Interrupted',
        client_left: 'Client left',
        deadline: 'Deadline',
        unknown: 'Unknown',
      }),
    ),
    failover: select('failover', toOptions({ yes: 'More than one attempt', no: 'At most one attempt' })),
    price: select('price', toOptions({ known: 'Known', unknown: 'Unknown' })),
    subject: text('subject'),
    min_ms: number('min_ms'),
    max_ms: number('max_ms'),
    min_cost: number('min_cost'),
    max_cost: number('max_cost'),
  };
  const excluding = {
    not_source: text('not_source', choices.applications),
    not_model: text('not_model', choices.models),
    not_key: select('not_key', keys),
    not_code: text('not_code', codes),
    not_status: select('not_status', statuses),
  };
  const isRareSet = namesOf(filter).some((name) => Object.hasOwn(rare, name) || Object.hasOwn(excluding, name));
  const kept = [...rangeParameters, ...linkedFilters, ...keep].flatMap((name) => {
    const value = url.searchParams.get(name);
    return value ? [html`<input type="hidden" name="${name}" value="${value}">`] : [];
  });
  return html`${filtersButton(namesOf(filter).length)}<form class="filters"${foldedForm} method="get" action="${url.pathname}" role="search" aria-label="Filters">${kept}${fields}
${text('source', choices.applications)}${text('model', choices.models)}${select('key', keys)}${text('task')}${select('result', [...toOptions({ ok: 'Succeeded', error: 'Errors' }), ...results])}${select('status', statuses)}
<details class="more-filters"${isRareSet ? html` open` : ''}><summary>More filters</summary><div class="filters">${Object.values(rare)}</div>
${fieldset('Leave out', [html`<div class="filters">${Object.values(excluding)}</div>`])}</details>
${checkboxField({ name: 'own', label: labelOf('own'), value: 'show', checked: filter.own === 'show' })}
<div class="filter-actions"><button class="button">Apply</button></div></form>`;
}

/** The option for a key in a select. */
export function toKeyOption({ prefix, name }: FilterChoices['keys'][number]): Option {
  return { value: prefix, label: `${name} (${prefix})` };
}

/** Renders each active filter with a link that removes it, or an empty string if there are none. */
export function activeFilters(context: Pick<ConsoleContext, 'url'>, filter: CallFilter): Html | string {
  const on = Object.entries(filterQuery(filter));
  if (on.length === 0) return '';
  const clear = withQuery(context, Object.fromEntries([...filterNames, pageParameter].map((name) => [name, null])));
  return html`<ul class="chips" aria-label="Active filters">${on.map(
    ([name, value]) =>
      html`<li><span>${labelOf(name)}: <strong>${describeValue(name, value)}</strong></span>${inverseLink(context, name, value)}<a href="${withQuery(context, { [name]: null, [pageParameter]: null })}" aria-label="Remove the filter ${labelOf(name)}">✕</a></li>`,
  )}<li class="clear"><a href="${clear}">Clear all</a></li></ul>`;
}

function labelOf(name: string): string {
  return filterLabels[name] ?? name;
}

function describeValue(name: string, value: string): string {
  if (name === 'own') return 'shown';
  if (value === noValue) return 'none';
  return units[name] === undefined ? value : `${value} ${units[name]}`;
}

/** Renders a link that inverts a filter, i.e. switches between showing only these calls and hiding them. */
function inverseLink(context: Pick<ConsoleContext, 'url'>, name: string, value: string): Html | string {
  const inverse = name.startsWith('not_') ? name.slice('not_'.length) : `not_${name}`;
  if (!filterNames.includes(inverse)) return '';
  const href = withQuery(context, { [name]: null, [inverse]: value, [pageParameter]: null });
  const label = name.startsWith('not_') ? 'Only these' : 'Leave out';
  return html`<a href="${href}">${label}<span class="hidden"> (${filterLabels[inverse]} ${value})</span></a>`;
}

/**
 * Converts the filter to query parameters. Leaves out `own`, unless it's `show`, because pages hide the gateway's own
 * calls by default.
 */
export function filterQuery({ own, ...filter }: CallFilter): Record<string, string> {
  const given = { ...filter, ...(own === 'show' && { own }) };
  return Object.fromEntries(Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined));
}
