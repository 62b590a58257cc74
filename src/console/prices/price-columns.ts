import type { ModelPrices } from '../../usage/prices/stored-price.ts';
import { badge, type Column, usd } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import type { CsvValue } from '../frame/route.ts';

export interface PricedModel extends ModelPrices {
  readonly id: string;
  readonly kind: string;
  readonly source: string;
  readonly maxInputTokens: number | null;
  readonly maxOutputTokens: number | null;
}

/** Builds the price columns of a table. Unknown prices are null. */
export function priceColumns<Row>(pricesOf: (row: Row) => ModelPrices | null): Column<Row>[] {
  return [
    { label: 'Input', align: 'end', value: (row) => usd(pricesOf(row)?.price?.inputNanos ?? null) },
    { label: 'Cached input', align: 'end', wideOnly: true, value: (row) => usd(pricesOf(row)?.price?.cachedInputNanos ?? null) },
    { label: 'Output', align: 'end', value: (row) => usd(pricesOf(row)?.price?.outputNanos ?? null) },
    { label: 'Other', value: (row) => otherPrices(pricesOf(row)) },
  ];
}

const unitLabels = [
  ['perImageNanos', 'per image'],
  ['perMillionCharactersNanos', 'per million characters'],
  ['perSecondNanos', 'per second'],
] as const;

function otherPrices(prices: ModelPrices | null): Html | string {
  if (prices === null) return '';
  const { price } = prices;
  const lines = [
    ...unitLabels.flatMap(([member, label]) => (prices[member] === null ? [] : [html`${usd(prices[member])} ${label}`])),
    ...(price?.perSearchNanos === undefined ? [] : [html`${usd(price.perSearchNanos)} per search`]),
    ...(price?.imageInputNanos === undefined ? [] : [html`${usd(price.imageInputNanos)} image input`]),
    ...Object.entries(price?.tierMillionths ?? {}).map(([tier, factor]) => html`${String(Number(factor) / 1e6)} times in tier ${tier}`),
    ...Object.entries(price?.perToolUseNanos ?? {}).map(([tool, nanos]) => html`${usd(nanos)} per use of ${tool}`),
    ...(price?.above ?? []).map(
      ({ tokens, price: above }) => html`${usd(above.inputNanos)} / ${usd(above.outputNanos)} above ${tokens / 1_000}k input tokens`,
    ),
    ...(price && price.cacheWriteNanos !== price.inputNanos ? [html`${usd(price.cacheWriteNanos)} cache write`] : []),
    ...(price && price.cacheWrite1hNanos !== price.inputNanos && price.cacheWrite1hNanos !== price.cacheWriteNanos
      ? [html`${usd(price.cacheWrite1hNanos)} cache write, 1 h`]
      : []),
  ];
  return html`${lines.map((line) => html`<div class="nowrap">${line}</div>`)}`;
}

const sources: Readonly<Record<string, string>> = { file: 'config file', import: 'import', starter: 'built in' };

export function sourceBadge(source: string): Html {
  return badge(sources[source] ?? source, source === 'file' ? 'accent' : 'neutral');
}

export const priceCsvHeader = [
  'input_usd_per_million',
  'cached_input_usd_per_million',
  'cache_write_usd_per_million',
  'cache_write_1h_usd_per_million',
  'output_usd_per_million',
  'usd_per_search',
  'image_input_usd_per_million',
  'usd_per_image',
  'usd_per_million_characters',
  'usd_per_second',
] as const;

export function priceCsv(prices: ModelPrices | null): CsvValue[] {
  const { price = null, perImageNanos = null, perMillionCharactersNanos = null, perSecondNanos = null } = prices ?? {};
  const amounts = [
    ...[
      price?.inputNanos,
      price?.cachedInputNanos,
      price?.cacheWriteNanos,
      price?.cacheWrite1hNanos,
      price?.outputNanos,
      price?.perSearchNanos,
      price?.imageInputNanos,
    ],
    ...[perImageNanos, perMillionCharactersNanos, perSecondNanos],
  ];
  return amounts.map((nanos) => (nanos === null || nanos === undefined ? null : Number(nanos) / 1e9));
}
