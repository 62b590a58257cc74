/**
 * The tokens and itemized cost of a call, at the prices that applied when it started.
 */

import { trimEnd } from '../../core/trim.ts';
import type { CallDetail } from '../../usage/analytics/call-detail.ts';
import type { CostLine } from '../../usage/analytics/cost-lines.ts';
import { card, definitions, formatCount, formatUsd, notice, section, table, usd } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';

export function costSection(call: CallDetail): Html {
  const { tokens, cost, costNanos, estimated, units } = call;
  const reported = units?.reportedCostNanos;
  const counts = definitions([
    ['Input tokens', formatCount(tokens.input)],
    ['Cached input', formatCount(tokens.cachedInput)],
    ['Cache write', formatCount(tokens.cacheWrite)],
    ['Cache write, 1 h', formatCount(tokens.cacheWrite1h)],
    ['Output tokens', formatCount(tokens.output)],
    ['Stored cost', usd(costNanos)],
    ...(reported === undefined ? [] : compareWithVendor(costNanos, reported)),
  ]);
  const estimate = estimated
    ? notice('Tokens and cost are estimates, because the vendor sent no final count or a price is missing from the catalog.', 'warning')
    : '';
  const lines = cost.lines.length === 0 ? '' : lineTable(cost.lines, cost.sumNanos);
  const tier =
    cost.aboveTokens === null
      ? ''
      : html`<p class="hint">The input has more than ${formatCount(cost.aboveTokens)} tokens, and the model has different prices above that length.</p>`;
  const serviceTier =
    cost.serviceTier === null
      ? ''
      : html`<p class="hint">The vendor used the service tier ${cost.serviceTier}. The prices include its factor.</p>`;
  return section('Tokens and cost', html`${card(counts)}${estimate}${lines}${tier}${serviceTier}${explainComparison(call)}`);
}

function compareWithVendor(costNanos: number | null, reported: number): [string, Html][] {
  return [
    ['Cost reported by the vendor', usd(reported)],
    ['Stored cost minus reported cost', usd(costNanos === null ? null : costNanos - reported)],
  ];
}

function lineTable(lines: readonly CostLine[], sumNanos: number | null): Html {
  return table<CostLine>({
    caption: 'Cost line by line',
    rows: lines,
    columns: [
      { label: 'Item', grow: true, value: ({ item }) => item.charAt(0).toUpperCase() + item.slice(1) },
      { label: 'Count', align: 'end', value: ({ count }) => formatCount(count) },
      { label: 'Price', align: 'end', value: formatPrice },
      { label: 'Cost in USD', align: 'end', value: ({ costNanos }) => exactAmount(costNanos) },
    ],
    footer: ['Sum, rounded once', '', '', sumNanos === null ? '' : exactAmount({ whole: BigInt(sumNanos), millionths: 0n })],
  });
}

function formatPrice({ priceNanos, per }: CostLine): string {
  return priceNanos === null ? '' : `${formatUsd(priceNanos)} per ${per === 1 ? 'unit' : 'million'}`;
}

/**
 * Formats an exact amount in USD. `whole` is in nano-dollars, and `millionths` is the remaining fraction of a
 * nano-dollar.
 */
function exactAmount({ whole, millionths }: CostLine['costNanos']): string {
  const digits = (whole * 1_000_000n + millionths).toString().padStart(16, '0');
  const fraction = trimEnd(digits.slice(-15), '0').padEnd(2, '0');
  return `${digits.slice(0, -15)}.${fraction}`;
}

function explainComparison({ cost: { comparison }, costNanos, model }: CallDetail): Html {
  const texts: Readonly<Record<typeof comparison, string>> = {
    equal: `The lines add up to the stored cost, at the prices of ${model} when the call started.`,
    different:
      costNanos === null
        ? 'The call was stored without a cost, because the price of its model was unknown. The lines use a price that was recorded for that time later.'
        : 'The lines do not add up to the stored cost, because the price for that time or the cost of the call was corrected after the call.',
    cache_hit: 'Nothing was charged, because the response came from the response cache.',
    no_response: 'Nothing was charged, because no vendor completed the call.',
    price_unknown: `The cost cannot be explained, because no price of ${model} is recorded for that time.`,
    units_not_kept: 'We cannot show the cost line by line, because the model is charged by units that are not stored with the call.',
    video: 'A video is charged by the second when it is ready.',
  };
  const isUnexpected = comparison === 'different' || comparison === 'price_unknown';
  return isUnexpected ? notice(texts[comparison], 'warning') : html`<p class="hint">${texts[comparison]}</p>`;
}
