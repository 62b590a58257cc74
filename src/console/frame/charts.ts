/**
 * Renders charts as SVG on the server, with a table of the same figures below. They need no script and work in both
 * colour themes. Horizontal positions are percentages, so that charts fill their container while the text keeps its
 * size.
 */
import {
  type Bucket,
  type ChartOptions,
  chartFrame,
  type Legend,
  lineOf,
  nothingToShow,
  percent,
  plotHeight,
  seriesClass,
  type Tick,
  xLabels,
  yTicks,
} from './chart-frame.ts';
import { type Html, html } from './html.ts';

export type { ChartOptions } from './chart-frame.ts';

export function barChart(options: ChartOptions): Html {
  const { buckets, series, format, wholeNumbers } = options;
  const totals = buckets.map(totalOf);
  if (buckets.length === 0 || totals.every((total) => total === 0)) return nothingToShow(options);
  const { ticks, max } = yTicks(Math.max(...totals), wholeNumbers);
  const step = 100 / buckets.length;
  const gap = Math.min(step * 0.2, 1);
  // A single path for all bars of a series keeps pages with many bars small.
  const bars = series.map((_, position) => {
    const path = buckets.map(({ values }, index) => {
      const height = ((values[position] ?? 0) / max) * plotHeight;
      if (height === 0) return '';
      const below = values.slice(0, position + 1).reduce<number>((sum, value) => sum + (value ?? 0), 0);
      const x = Number((index * step + gap / 2).toFixed(2));
      const width = Number((step - gap).toFixed(2));
      return `M${x} ${((1 - below / max) * plotHeight).toFixed(1)}h${width}v${height.toFixed(1)}h-${width}z`;
    });
    return html`<path class="bar ${seriesClass(series, position)}" d="${path.join('')}"/>`;
  });
  const areas = buckets.map((bucket, index) => {
    const title = describe(bucket, series, format, totals[index] ?? 0);
    return linked(bucket.href, html`<title>${title}</title>${hitArea(index, step)}`);
  });
  const plot = html`<svg width="100%" height="${plotHeight}" viewBox="0 0 100 ${plotHeight}" preserveAspectRatio="none">${bars}</svg>${areas}`;
  return chartFrame({
    ...options,
    ticks: toTicks(ticks, max, format),
    xAxis: xLabels(buckets, 'middle'),
    plot,
    legend: legendOf(options),
  });
}

/** Renders one line per series, e.g. for latency percentiles over time. */
export function lineChart(options: ChartOptions): Html {
  const { buckets, series, format } = options;
  const largest = Math.max(0, ...buckets.flatMap(({ values }) => values.map((value) => value ?? 0)));
  if (largest === 0) return nothingToShow(options);
  const { ticks, max } = yTicks(largest);
  const step = 100 / buckets.length;
  const lines = series.map((_, position) => {
    const values = buckets.map(({ values }) => values[position] ?? null);
    return html`<path class="line ${seriesClass(series, position)}" vector-effect="non-scaling-stroke" d="${lineOf(values, max, step)}"/>`;
  });
  const dots = buckets.flatMap((bucket, index) =>
    bucket.values.map((value, position) =>
      value === null
        ? ''
        : html`<circle class="dot ${seriesClass(series, position)}" cx="${percent((index + 0.5) * step)}" cy="${((1 - value / max) * plotHeight).toFixed(1)}" r="2.5"/>`,
    ),
  );
  const areas = buckets.map((bucket, index) =>
    linked(bucket.href, html`<title>${describe(bucket, series, format, null)}</title>${hitArea(index, step)}`),
  );
  const plot = html`<svg width="100%" height="${plotHeight}" viewBox="0 0 100 ${plotHeight}" preserveAspectRatio="none">${lines}</svg>${dots}${areas}`;
  return chartFrame({ ...options, ticks: toTicks(ticks, max, format), xAxis: xLabels(buckets, 'middle'), plot, legend: legendOf(options) });
}

export interface RankedItem {
  readonly label: string;
  readonly value: number;
  readonly href?: string;
  readonly detail?: Html | string;
}

/** Renders a horizontal bar for each item, e.g. the spend by model. The caller sorts the items. */
export function ranking({
  title,
  items,
  format,
  empty = 'No data in this period.',
}: {
  readonly title: string;
  readonly items: readonly RankedItem[];
  readonly format: (value: number) => string;
  readonly empty?: string;
}): Html {
  if (items.length === 0) return html`<p class="muted">${empty}</p>`;
  const max = Math.max(...items.map(({ value }) => value), 0);
  return html`<ol class="ranking" aria-label="${title}">${items.map(
    ({ label, value, href, detail }) =>
      html`<li><span class="ranking-label" title="${label}">${
        href === undefined ? label : html`<a href="${href}">${label}</a>`
      }</span><span class="ranking-value">${detail === undefined ? '' : html`<span class="muted">${detail}</span> `}${format(value)}</span><svg class="ranking-bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="4"/><rect class="s0" width="${
        max === 0 ? 0 : ((value / max) * 100).toFixed(1)
      }" height="4"/></svg></li>`,
  )}</ol>`;
}

export interface Span {
  readonly label: Html | string;
  /** Milliseconds since the start of the waterfall. */
  readonly start: number;
  readonly end: number;
  /** When something happened during the span, e.g. the first byte arrived. The bar is paler up to this time. */
  readonly mark?: number;
  readonly tone: 'good' | 'warning' | 'bad' | 'neutral';
  /** Shown to the right of the bar, e.g. an outcome. */
  readonly detail?: Html | string;
  readonly title: string;
}

/** Renders bars on a common time axis, e.g. for the attempts of a call. */
export function waterfall({
  title,
  spans,
  totalMs,
  format,
}: {
  readonly title: string;
  readonly spans: readonly Span[];
  readonly totalMs: number;
  readonly format: (ms: number) => string;
}): Html {
  const total = Math.max(totalMs, ...spans.map(({ end }) => end), 1);
  const at = (ms: number) => percent((ms / total) * 100);
  return html`<figure class="waterfall"><figcaption class="hidden">${title}</figcaption><ol>${spans.map(
    ({ label, start, end, mark = start, tone, detail, title: tooltip }) =>
      html`<li><span class="waterfall-label">${label}</span><svg class="waterfall-bar" width="100%" height="20" role="img" aria-label="${tooltip}"><title>${tooltip}</title><rect class="track" width="100%" height="20" rx="3"/><rect class="${tone} wait" x="${at(start)}" width="${at(mark - start)}" y="4" height="12"/><rect class="${tone}" x="${at(mark)}" width="${at(Math.max(end - mark, total / 400))}" y="4" height="12"/></svg><span class="waterfall-detail">${detail}</span></li>`,
  )}</ol><div class="waterfall-axis" aria-hidden="true"><p><span>0</span><span>${format(total / 2)}</span><span>${format(total)}</span></p></div></figure>`;
}

function hitArea(index: number, step: number): Html {
  return html`<rect class="hit" x="${percent(index * step)}" width="${percent(step)}" height="${plotHeight}"/>`;
}

function totalOf({ values }: Bucket): number {
  return values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
}

function describe(bucket: Bucket, series: ChartOptions['series'], format: ChartOptions['format'], total: number | null): string {
  const lines = series.flatMap(({ name }, index) => {
    const value = bucket.values[index] ?? null;
    return value === null || (value === 0 && series.length > 1) ? [] : [`${name}: ${format(value)}`];
  });
  return [bucket.label, ...lines, ...(total !== null && series.length > 1 ? [`Total: ${format(total)}`] : [])].join('\n');
}

function toTicks(ticks: readonly number[], max: number, format: (value: number) => string): Tick[] {
  return ticks.map((value) => ({ y: (1 - value / max) * plotHeight, label: format(value) }));
}

function legendOf({ series }: ChartOptions): Legend[] {
  return series.length < 2
    ? []
    : series.map(({ name, href }, index) => ({ name, className: seriesClass(series, index), ...(href !== undefined && { href }) }));
}

/** The bars of a chart link to the same calls as the rows of the table below, so they're kept out of the tab order. */
function linked(href: string | undefined, content: Html): Html {
  return href === undefined ? html`<g class="bucket">${content}</g>` : html`<a class="bucket" href="${href}" tabindex="-1">${content}</a>`;
}
