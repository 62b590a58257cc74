/**
 * Lists the current prices of all models in the catalog. Each model has a page with its price history.
 */
import { gatewayError } from '../../core/errors.ts';
import type { Queries } from '../../db/database.ts';
import { latestPrices, type PricePeriod, priceHistory } from '../../usage/prices/price-history.ts';
import {
  actionButton,
  card,
  csvLink,
  cutPage,
  definitions,
  filterForm,
  formatCount,
  pageParameter,
  pager,
  section,
  selectField,
  table,
  textField,
  time,
} from '../frame/components.ts';
import { html } from '../frame/html.ts';
import type { ConsoleContext, CsvValue, PageContent, PageResult } from '../frame/route.ts';
import { type PricedModel, priceColumns, priceCsv, priceCsvHeader, sourceBadge } from './price-columns.ts';

export interface PriceListDeps {
  readonly listModels: () => readonly PricedModel[];
  readonly queries: Queries;
}

export const pricesPath = '/console/admin/prices';
const pageSize = 100;

export async function showPrices(deps: PriceListDeps, context: ConsoleContext): Promise<PageContent> {
  const { url, session } = context;
  const query = url.searchParams;
  const after = query.get(pageParameter) ?? '';
  const all = deps.listModels();
  const following = filterModels(all, query).filter(({ id }) => id > after);
  const { shown, next } = cutPage(following, pageSize, ({ id }) => id);
  const latest = await latestPrices(
    deps.queries,
    shown.map(({ id }) => id),
  );
  const since = new Map(latest.map(({ model, effectiveFrom }) => [model, effectiveFrom]));
  const importLink = session.person.isAdmin ? html`<a class="button primary" href="${pricesPath}/import">Import prices</a>` : '';
  return {
    kind: 'page',
    title: 'Prices',
    actions: html`${csvLink(context)}${importLink}`,
    content: html`<p class="lead">USD per million tokens, unless a unit is named. A call is charged with the price in force when it started.</p>
${filterForm(context, [
  textField({ name: 'q', label: 'Model contains', type: 'search', value: query.get('q') }),
  selectField({ name: 'provider', label: 'Provider', value: query.get('provider'), options: withAny(all.map(({ id }) => providerOf(id))) }),
  selectField({ name: 'kind', label: 'Kind', value: query.get('kind'), options: withAny(all.map(({ kind }) => kind)) }),
])}${table<PricedModel>({
  caption: 'Models',
  rows: shown,
  empty: all.length === 0 ? 'The catalog is empty.' : 'No model matches the filters.',
  rowHref: ({ id }) => modelPath(id),
  columns: [
    { label: 'Model', value: ({ id }) => html`<code>${id}</code>`, grow: true },
    { label: 'Kind', value: ({ kind }) => kind, wideOnly: true },
    ...priceColumns<PricedModel>((model) => model),
    {
      label: `Source, since (${context.zone})`,
      value: ({ id, source }) =>
        html`${sourceBadge(source)} <span class="muted">${time(since.get(id) ?? null, context.zone, 'date')}</span>`,
    },
  ],
})}${pager(context, next, { first: 'First', next: 'Next' })}`,
  };
}

function withAny(values: readonly string[]) {
  return [{ value: '', label: 'Any' }, ...[...new Set(values)].sort().map((value) => ({ value, label: value }))];
}

function providerOf(id: string): string {
  return id.split('/', 1)[0] ?? '';
}

function filterModels(models: readonly PricedModel[], query: URLSearchParams): PricedModel[] {
  const [wanted, provider, kind] = [query.get('q')?.trim().toLowerCase() ?? '', query.get('provider') ?? '', query.get('kind') ?? ''];
  return models
    .filter(
      (model) =>
        model.id.toLowerCase().includes(wanted) &&
        (provider === '' || providerOf(model.id) === provider) &&
        (kind === '' || model.kind === kind),
    )
    .toSorted((left, right) => (left.id < right.id ? -1 : 1));
}

export async function exportPrices(deps: PriceListDeps, { url }: ConsoleContext): Promise<PageResult> {
  const models = filterModels(deps.listModels(), url.searchParams);
  const rows = models.map((model): CsvValue[] => [
    model.id,
    model.kind,
    model.source,
    ...priceCsv(model),
    model.maxInputTokens,
    model.maxOutputTokens,
  ]);
  const header = ['model', 'kind', 'source', ...priceCsvHeader, 'max_input_tokens', 'max_output_tokens'];
  return { kind: 'csv', fileName: 'prices.csv', header, rows };
}

export function modelPath(id: string): string {
  return `${pricesPath}/model?${new URLSearchParams({ id })}`;
}

export async function showModel(deps: PriceListDeps, context: ConsoleContext): Promise<PageContent> {
  const { zone, session } = context;
  const { id, model, history } = await findModel(deps, context);
  const remove =
    model?.source === 'import' && session.person.isAdmin
      ? actionButton({
          context,
          action: `${pricesPath}/remove`,
          values: { model: id },
          label: 'Remove imported row',
          about: `of ${id}`,
          danger: true,
        })
      : '';
  return {
    kind: 'page',
    title: id,
    breadcrumbs: [{ label: 'Prices', href: pricesPath }],
    actions: html`${csvLink(context)}${remove}`,
    content: html`${
      model === undefined
        ? html`<p class="lead">The model is no longer in the catalog.</p>`
        : card(
            definitions([
              ['Kind', model.kind],
              ['Price from', sourceBadge(model.source)],
              ['Input limit', model.maxInputTokens === null ? null : `${formatCount(model.maxInputTokens)} tokens`],
              ['Output limit', model.maxOutputTokens === null ? null : `${formatCount(model.maxOutputTokens)} tokens`],
            ]),
          )
    }${section(
      'Price history',
      table<PricePeriod>({
        caption: 'Price history',
        rows: history,
        empty: 'No price was ever known: calls of the model cost an unknown amount.',
        columns: [
          { label: `In force from (${zone})`, value: ({ effectiveFrom }) => time(effectiveFrom, zone) },
          ...priceColumns<PricePeriod>(({ prices }) => prices),
          { label: 'From', value: ({ source }) => sourceBadge(source) },
        ],
      }),
      { hint: 'USD per million tokens, unless a unit is named.' },
    )}`,
  };
}

export async function exportHistory(deps: PriceListDeps, context: ConsoleContext): Promise<PageResult> {
  const { id, history } = await findModel(deps, context);
  const rows = history.map(({ effectiveFrom, prices, source }): CsvValue[] => [
    id,
    new Date(effectiveFrom).toISOString(),
    source,
    ...priceCsv(prices),
  ]);
  return { kind: 'csv', fileName: `prices-${id}.csv`, header: ['model', 'in_force_from', 'source', ...priceCsvHeader], rows };
}

async function findModel(deps: PriceListDeps, { url }: ConsoleContext) {
  const id = url.searchParams.get('id') ?? '';
  const model = deps.listModels().find((listed) => listed.id === id);
  const history = await priceHistory(deps.queries, id);
  if (model === undefined && history.length === 0) throw gatewayError('not_found', { message: 'no such model' });
  return { id, model, history };
}
