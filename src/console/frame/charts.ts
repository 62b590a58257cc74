/**
 * Renders charts as SVG on the server, with a table of the same figures below. They need no script and work in both
 * colour themes. Horizontal positions are percentages, so that charts fill their container while the text keeps its
 * size.
 */
import type { CalendarUnit } from '../../core/time-zone.ts';
import { type Html, html } from './html.ts';
import { unitLabels, unitName } from './time-range.ts';
import { formatDuration, totalUsd } from './values.ts';

const plotHeight = 180;
const axisHeight = 24;
const maxLabels = 6;
const seriesColours = 8;

interface Bucket {
  /** The start of the unit. */
  readonly start: number;
  /** One value per series. Null leaves a gap, e.g. for the latency when there were no calls. */
  readonly values: readonly (number | null)[];
  readonly href?: string;
}

type LabelledBucket = Bucket & ReturnType<typeof unitLabels>;

interface Series {
  readonly name: string;
  readonly href?: string;
  readonly tone?: 'bad';
}

export interface ChartOptions {
  /** The title is for screen readers only, because each chart is in a section that already has a visible title. */
  readonly title: string;
  readonly zone: string;
  readonly unit: CalendarUnit;
  readonly series: readonly Series[];
  readonly buckets: readonly Bucket[];
  readonly format: (value: number) => string;
  /** True to keep fractions off the axis, e.g. for counts. */
  readonly wholeNumbers?: boolean;
}

/** Renders a stacked bar for each bucket. */
export function barChart(options: ChartOptions): Html {
  const { buckets, series, wholeNumbers } = options;
  const totals = buckets.map(({ values }) => sum(values));
  const scale = yScale(Math.max(0, ...totals), wholeNumbers);
  if (scale === null) return nothingToShow(options);
  const step = 100 / buckets.length;
  const gap = Math.min(step * 0.2, 1);
  // Draw all bars of a series as a single path, to keep pages with many bars small.
  const bars = series.map((_, position) => {
    const path = buckets.map(({ values }, index) => {
      const height = ((values[position] ?? 0) / scale.max) * plotHeight;
      if (height === 0) return '';
      const below = sum(values.slice(0, position + 1));
      const x = Number((index * step + gap / 2).toFixed(2));
      const width = Number((step - gap).toFixed(2));
      return `M${x} ${((1 - below / scale.max) * plotHeight).toFixed(1)}h${width}v${height.toFixed(1)}h-${width}z`;
    });
    return html`<path class="bar ${seriesClass(series, position)}" d="${path.join('')}"/>`;
  });
  return chart(options, scale, { shapes: bars, totals });
}

/** Renders one line per series, e.g. for latency percentiles over time. */
export function lineChart(options: ChartOptions): Html {
  const { buckets, series } = options;
  const scale = yScale(Math.max(0, ...buckets.flatMap(({ values }) => values.map((value) => value ?? 0))));
  if (scale === null) return nothingToShow(options);
  const step = 100 / buckets.length;
  const lines = series.map((_, position) => {
    const values = buckets.map(({ values }) => values[position] ?? null);
    return html`<path class="line ${seriesClass(series, position)}" vector-effect="non-scaling-stroke" d="${lineOf(values, scale.max, step)}"/>`;
  });
  const dots = buckets.flatMap((bucket, index) =>
    bucket.values.map((value, position) =>
      value === null
        ? ''
        : html`<circle class="dot ${seriesClass(series, position)}" cx="${percent((index + 0.5) * step)}" cy="${((1 - value / scale.max) * plotHeight).toFixed(1)}" r="2.5"/>`,
    ),
  );
  return chart(options, scale, { shapes: lines, dots });
}

interface RankedSpend {
  readonly label: string;
  readonly costNanos: number;
  readonly href?: string;
  readonly detail: string;
}

/** Renders a horizontal bar for the spend of each item, e.g. of each model. The caller sorts the items. */
export function ranking(title: string, items: readonly RankedSpend[], empty: string): Html {
  if (items.length === 0) return html`<p class="muted">${empty}</p>`;
  const max = Math.max(...items.map(({ costNanos }) => costNanos));
  return html`<ol class="ranking" aria-label="${title}">${items.map(
    ({ label, costNanos, href, detail }) =>
      html`<li><span class="ranking-label" title="${label}">${
        href === undefined ? label : html`<a href="${href}">${label}</a>`
      }</span><span class="ranking-value"><span class="muted">${detail}</span> ${totalUsd(costNanos)}</span><svg class="ranking-bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="4"/><rect class="s0" width="${
        max === 0 ? 0 : ((costNanos / max) * 100).toFixed(1)
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
  /** Text to the right of the bar, e.g. an outcome. */
  readonly detail?: Html | string;
  readonly title: string;
}

/** Renders bars on a common time axis, e.g. for the attempts of a call. */
export function waterfall(title: string, spans: readonly Span[], totalMs: number): Html {
  const total = Math.max(totalMs, ...spans.map(({ end }) => end), 1);
  const at = (ms: number) => percent((ms / total) * 100);
  return html`<figure class="waterfall"><figcaption class="hidden">${title}</figcaption><ol>${spans.map(
    ({ label, start, end, mark = start, tone, detail, title: tooltip }) =>
      html`<li><span class="waterfall-label">${label}</span><svg class="waterfall-bar" width="100%" height="20" role="img" aria-label="${tooltip}"><title>${tooltip}</title><rect class="track" width="100%" height="20" rx="3"/><rect class="${tone} wait" x="${at(start)}" width="${at(mark - start)}" y="4" height="12"/><rect class="${tone}" x="${at(mark)}" width="${at(Math.max(end - mark, total / 400))}" y="4" height="12"/></svg><span class="waterfall-detail">${detail}</span></li>`,
  )}</ol><div class="waterfall-axis" aria-hidden="true"><p><span>0</span><span>${formatDuration(total / 2)}</span><span>${formatDuration(total)}</span></p></div></figure>`;
}

interface Scale {
  readonly ticks: readonly number[];
  /** The value at the top of the plot. */
  readonly max: number;
}

/** Picks up to four round values for the axis. Returns null if there's nothing to draw. */
function yScale(largest: number, wholeNumbers = false): Scale | null {
  if (largest === 0) return null;
  const rough = wholeNumbers ? Math.max(1, largest / 4) : largest / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factors = wholeNumbers && power === 1 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10];
  const step = factors.map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const count = Math.ceil(largest / step - 1e-9);
  return { ticks: Array.from({ length: count }, (_, index) => (index + 1) * step), max: count * step };
}

interface Plot {
  /** SVG shapes in a box of 100 by `plotHeight`. The box is stretched to the width of the chart. */
  readonly shapes: readonly Html[];
  readonly dots?: readonly (Html | string)[];
  /** The total of each bucket, which its tooltip shows. */
  readonly totals?: readonly number[];
}

function chart(options: ChartOptions, { ticks, max }: Scale, { shapes, dots = [], totals }: Plot): Html {
  const { series, format, unit, zone } = options;
  const buckets = options.buckets.map((bucket) => ({ ...bucket, ...unitLabels(unit, zone, bucket.start) }));
  const step = 100 / buckets.length;
  const yOf = (value: number): number => (1 - value / max) * plotHeight;
  const grid = ticks.map(
    (value) => html`<line class="grid" x1="0" x2="100%" y1="${yOf(value).toFixed(1)}" y2="${yOf(value).toFixed(1)}"/>`,
  );
  const labels = ticks.map(
    (value) => html`<text class="axis" x="-8" y="${(yOf(value) + 4).toFixed(1)}" text-anchor="end">${format(value)}</text>`,
  );
  // The bars link to the same calls as the rows of the table below, so they're kept out of the tab order.
  const areas = buckets.map((bucket, index) => {
    const area = html`<title>${describe(bucket, options, totals?.[index])}</title><rect class="hit" x="${percent(index * step)}" width="${percent(step)}" height="${plotHeight}"/>`;
    return bucket.href === undefined
      ? html`<g class="bucket">${area}</g>`
      : html`<a class="bucket" href="${bucket.href}" tabindex="-1">${area}</a>`;
  });
  return html`<figure class="chart">${caption(options)}${series.length < 2 ? '' : legend(series)}
<svg class="plot" width="100%" height="${plotHeight + axisHeight + 16}" aria-hidden="true"><svg y="16" width="100%" height="${plotHeight + axisHeight}" overflow="visible">${grid}<svg width="100%" height="${plotHeight}" viewBox="0 0 100 ${plotHeight}" preserveAspectRatio="none">${shapes}</svg>${dots}${areas}<line class="base" x1="0" x2="100%" y1="${plotHeight}" y2="${plotHeight}"/>${labels}${xLabels(buckets)}</svg></svg>
<div class="chart-foot">${dataTable(options, buckets)}<span class="zone">Time zone: ${zone}</span></div></figure>`;
}

function nothingToShow(options: ChartOptions): Html {
  return html`<figure class="chart">${caption(options)}<p class="empty-chart">No data in this period.</p><div class="chart-foot"><span class="zone">Time zone: ${options.zone}</span></div></figure>`;
}

function caption({ title }: ChartOptions): Html {
  return html`<figcaption class="hidden">${title}</figcaption>`;
}

function legend(series: readonly Series[]): Html {
  return html`<ul class="legend">${series.map(
    ({ name, href }, index) =>
      html`<li><span class="swatch ${seriesClass(series, index)}"></span>${href === undefined ? name : html`<a href="${href}">${name}</a>`}</li>`,
  )}</ul>`;
}

function xLabels(buckets: readonly LabelledBucket[]): readonly (Html | string)[] {
  const every = Math.ceil(buckets.length / maxLabels);
  return buckets.map(({ axisLabel }, index) => {
    if (index % every !== 0) return '';
    const x = ((index + 0.5) * 100) / buckets.length;
    const [position, anchor] = x > 92 ? [100, 'end'] : [x, 'middle'];
    return html`<text class="axis" x="${percent(position)}" y="${plotHeight + 17}" text-anchor="${anchor}">${axisLabel}</text>`;
  });
}

function describe({ label, values }: LabelledBucket, { series, format }: ChartOptions, total: number | undefined): string {
  const lines = series.flatMap(({ name }, index) => {
    const value = values[index] ?? null;
    return value === null || (value === 0 && series.length > 1) ? [] : [`${name}: ${format(value)}`];
  });
  const sumLine = total !== undefined && series.length > 1 ? [`Total: ${format(total)}`] : [];
  return [label, ...lines, ...sumLine].join('\n');
}

function dataTable({ title, series, format, unit }: ChartOptions, buckets: readonly LabelledBucket[]): Html {
  const head = series.map(({ name }) => html`<th scope="col" class="end">${name}</th>`);
  const rows = buckets.map(({ label, values, href }) => {
    const cells = series.map((_, index) => {
      const value = values[index] ?? null;
      return html`<td class="end">${value === null ? '–' : format(value)}</td>`;
    });
    return html`<tr><th scope="row">${href === undefined ? label : html`<a href="${href}">${label}</a>`}</th>${cells}</tr>`;
  });
  return html`<details class="chart-data"><summary>Show as table</summary><div class="table-frame scroll" tabindex="0" role="region" aria-label="${title}"><table class="plain"><caption class="hidden">${title}</caption><thead><tr><th scope="col">${unitName(unit)}</th>${head}</tr></thead><tbody>${rows}</tbody></table></div></details>`;
}

function seriesClass(series: readonly Series[], index: number): string {
  const tone = series[index]?.tone;
  return tone === undefined ? `s${index % seriesColours}` : `s-${tone}`;
}

/** Returns an SVG path through the centres of the buckets, with gaps for null values. */
function lineOf(values: readonly (number | null)[], max: number, step: number): string {
  return values
    .map((value, index) => {
      if (value === null) return '';
      const command = (values[index - 1] ?? null) === null ? 'M' : 'L';
      return `${command}${((index + 0.5) * step).toFixed(2)} ${((1 - value / max) * plotHeight).toFixed(1)}`;
    })
    .join('');
}

function sum(values: readonly (number | null)[]): number {
  return values.reduce<number>((total, value) => total + (value ?? 0), 0);
}

function percent(value: number): string {
  return `${Number(value.toFixed(3))}%`;
}
