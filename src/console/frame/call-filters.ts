/** Renders the form that filters calls, and a list of the active filters with a link to remove each of them. */
import { routes } from '../../core/call.ts';
import { errorSpecs } from '../../core/errors.ts';
import { type CallFilter, filterNames, hideOwnCalls, noValue, parseCallFilter } from '../../usage/analytics/call-filter.ts';
import { checkboxField, fieldset, type Option, selectField, textField } from './form.ts';
import { type Html, html } from './html.ts';
import { filtersButton, foldedForm, pageParameter, withQuery } from './navigation.ts';
import type { ConsoleContext } from './route.ts';
import { rangeParameters } from './time-range.ts';

export interface FilterChoices {
  readonly applications: readonly string[];
  readonly models: readonly string[];
  readonly keys: readonly { readonly prefix: string; readonly name: string }[];
}

const labels: Readonly<Record<string, string>> = {
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

const any: Option = { value: '', label: 'Any' };
const none: Option = { value: noValue, label: 'None' };
const toOption = (value: string): Option => ({ value, label: value });

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
  const text = (name: keyof CallFilter, suggestions?: readonly string[]): Html =>
    textField({
      name,
      label: labels[name] ?? name,
      value: filter[name],
      placeholder: 'Any',
      autocomplete: 'off',
      ...(suggestions && { suggestions }),
    });
  const select = (name: keyof CallFilter, options: readonly Option[]): Html => {
    const value = filter[name];
    const listed = value === undefined || options.some((option) => option.value === value) ? options : [...options, toOption(value)];
    return selectField({ name, label: labels[name] ?? name, value, options: [any, ...listed] });
  };
  const number = (name: keyof CallFilter): Html =>
    textField({
      ...{ name, label: labels[name] ?? name, value: filter[name], type: 'number', min: 0, step: 'any', placeholder: 'Any' },
      ...(units[name] !== undefined && { unit: units[name] }),
    });
  const keyOptions = choices.keys.map(({ prefix, name }) => ({ value: prefix, label: `${name} (${prefix})` }));
  const rare: readonly (keyof CallFilter)[] = [
    ...(['route', 'code', 'cache', 'outcome', 'failover', 'price', 'subject', 'min_ms', 'max_ms', 'min_cost', 'max_cost'] as const),
    ...(['not_source', 'not_model', 'not_key', 'not_code', 'not_status'] as const),
  ];
  const isRareSet = rare.some((name) => filter[name] !== undefined);
  const kept = [...rangeParameters, ...linkedFilters, ...keep].flatMap((name) => {
    const value = url.searchParams.get(name);
    return value ? [html`<input type="hidden" name="${name}" value="${value}">`] : [];
  });
  return html`${filtersButton(countFilters(filter))}<form class="filters"${foldedForm} method="get" action="${url.pathname}" role="search" aria-label="Filters">${kept}${fields}
${text('source', choices.applications)}${text('model', choices.models)}${select('key', keyOptions)}${text('task')}${select('result', [
  { value: 'ok', label: 'Succeeded' },
  { value: 'error', label: 'Errors' },
  ...results,
])}${select('status', ['2xx', '4xx', '5xx'].map(toOption))}
<details class="more-filters"${isRareSet ? html` open` : ''}><summary>More filters</summary><div class="filters">${select('route', routes.map(toOption))}${text(
    'code',
    Object.keys(errorSpecs),
  )}${select('cache', [{ value: 'hit', label: 'Hit' }, { value: 'miss', label: 'Miss' }, none])}${select('outcome', [
    { value: 'ok', label: 'OK' },
    { value: 'refused', label: 'Refused' },
    { value: 'failed', label: 'Failed' },
    { value: 'interrupted', label: 'Interrupted' },
    { value: 'client_left', label: 'Client left' },
    { value: 'deadline', label: 'Deadline' },
    { value: 'unknown', label: 'Unknown' },
  ])}${select('failover', [
    { value: 'yes', label: 'More than one attempt' },
    { value: 'no', label: 'At most one attempt' },
  ])}${select('price', [
    { value: 'known', label: 'Known' },
    { value: 'unknown', label: 'Unknown' },
  ])}${text('subject')}${(['min_ms', 'max_ms', 'min_cost', 'max_cost'] as const).map(number)}</div>
${fieldset('Leave out', [
  html`<div class="filters">${text('not_source', choices.applications)}${text('not_model', choices.models)}${select('not_key', keyOptions)}${text(
    'not_code',
    Object.keys(errorSpecs),
  )}${select('not_status', ['2xx', '4xx', '5xx'].map(toOption))}</div>`,
])}</details>
${checkboxField({ name: 'own', label: labels.own ?? '', value: 'show', checked: filter.own === 'show' })}
<div class="filter-actions"><button class="button">Apply</button></div></form>`;
}

/** Renders each active filter with a link that removes it, or an empty string if there are none. */
export function activeFilters(context: Pick<ConsoleContext, 'url'>, filter: CallFilter): Html | string {
  const on = filterNames.flatMap((name) => {
    const value = Object.entries(filter).find(([key]) => key === name)?.[1];
    return value === undefined || (name === 'own' && value === 'hide') ? [] : [{ name, value }];
  });
  if (on.length === 0) return '';
  const clear = withQuery(context, Object.fromEntries([...filterNames, pageParameter].map((name) => [name, null])));
  return html`<ul class="chips" aria-label="Active filters">${on.map(
    ({ name, value }) =>
      html`<li><span>${labels[name] ?? name}: <strong>${describeValue(name, value)}</strong></span>${inverseLink(context, name, value)}<a href="${withQuery(context, { [name]: null, [pageParameter]: null })}" aria-label="Remove the filter ${labels[name] ?? name}">✕</a></li>`,
  )}<li class="clear"><a href="${clear}">Clear all</a></li></ul>`;
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
  return html`<a href="${href}">${label}<span class="hidden"> (${labels[inverse]} ${value})</span></a>`;
}

export function filterQuery({ own, ...filter }: CallFilter): Record<string, string> {
  if (own === 'show') return { ...filterQuery(filter), own };
  return Object.fromEntries(Object.entries(filter).filter((entry): entry is [string, string] => entry[1] !== undefined));
}

/** The filter that hides the gateway's own calls doesn't count, because it's on by default. */
function countFilters({ own: _own, ...filter }: CallFilter): number {
  return Object.values(filter).filter((value) => value !== undefined).length;
}
