/** The common parts of all charts: axes, grid, legend, and a table with the same figures. */
import { type Html, html } from './html.ts';

export const plotHeight = 180;
const axisHeight = 24;
const maxLabels = 6;
const seriesColours = 8;

export interface Bucket {
  readonly label: string;
  /** A shorter label for the axis, such as `22 Nov`. Defaults to `label`. */
  readonly axisLabel?: string;
  /** One value per series. Null leaves a gap, e.g. for the latency when there were no calls. */
  readonly values: readonly (number | null)[];
  readonly href?: string;
}

export interface Series {
  readonly name: string;
  readonly href?: string;
  readonly tone?: 'bad';
}

export interface ChartOptions {
  readonly title: string;
  readonly hideTitle?: boolean;
  readonly zone?: string;
  readonly series: readonly Series[];
  readonly buckets: readonly Bucket[];
  readonly format: (value: number) => string;
  /** True to keep fractions off the axis, e.g. for counts. */
  readonly wholeNumbers?: boolean;
  readonly bucketName?: string;
}

export interface Tick {
  readonly y: number;
  readonly label: string;
}

export interface Legend {
  readonly name: string;
  readonly className: string;
  readonly href?: string;
}

export function seriesClass(series: readonly Series[], index: number): string {
  const tone = series[index]?.tone;
  return tone === undefined ? `s${index % seriesColours}` : `s-${tone}`;
}

export function percent(value: number): string {
  return `${Number(value.toFixed(3))}%`;
}

/** Picks up to four round values for the axis. `max` is the value at the top of the plot. */
export function yTicks(largest: number, wholeNumbers = false): { ticks: number[]; max: number } {
  const rough = wholeNumbers ? Math.max(1, largest / 4) : largest / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    (wholeNumbers && power === 1 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((factor) => factor * power).find((size) => size >= rough) ??
    rough;
  const count = Math.ceil(largest / step - 1e-9);
  return { ticks: Array.from({ length: count }, (_, index) => (index + 1) * step), max: count * step };
}

export function xLabels(buckets: readonly Bucket[], align: 'middle'): Html {
  const every = Math.ceil(buckets.length / maxLabels);
  const step = 100 / buckets.length;
  return html`${buckets.map((bucket, index) => {
    if (index % every !== 0) return '';
    const x = (index + 0.5) * step;
    const anchor = x > 92 ? 'end' : align;
    const position = anchor === 'end' ? 100 : x;
    return html`<text class="axis" x="${percent(position)}" y="${plotHeight + 17}" text-anchor="${anchor}">${bucket.axisLabel ?? bucket.label}</text>`;
  })}`;
}

/** Returns an SVG path through the centres of the buckets, with gaps for null values. */
export function lineOf(values: readonly (number | null)[], max: number, step: number, height = plotHeight): string {
  let isDrawing = false;
  return values
    .map((value, index) => {
      if (value === null) {
        isDrawing = false;
        return '';
      }
      const command = isDrawing ? 'L' : 'M';
      isDrawing = true;
      return `${command}${((index + 0.5) * step).toFixed(2)} ${((1 - value / max) * height).toFixed(1)}`;
    })
    .join('');
}

interface ChartFrame extends ChartOptions {
  readonly ticks: readonly Tick[];
  readonly xAxis: Html;
  readonly plot: Html | readonly Html[];
  readonly legend: readonly Legend[];
}

export function chartFrame(options: ChartFrame): Html {
  const { ticks, xAxis, plot, legend, zone } = options;
  const grid = ticks.map(({ y }) => html`<line class="grid" x1="0" x2="100%" y1="${y.toFixed(1)}" y2="${y.toFixed(1)}"/>`);
  const labels = ticks.map(({ y, label }) => html`<text class="axis" x="-8" y="${(y + 4).toFixed(1)}" text-anchor="end">${label}</text>`);
  const base = html`<line class="base" x1="0" x2="100%" y1="${plotHeight}" y2="${plotHeight}"/>`;
  return html`<figure class="chart">${caption(options)}${legend.length === 0 ? '' : renderLegend(legend)}
<svg class="plot" width="100%" height="${plotHeight + axisHeight + 16}" aria-hidden="true"><svg y="16" width="100%" height="${plotHeight + axisHeight}" overflow="visible">${grid}${plot}${base}${labels}${xAxis}</svg></svg>
<div class="chart-foot">${dataTable(options)}${zone === undefined ? '' : html`<span class="zone">Time zone: ${zone}</span>`}</div></figure>`;
}

export function nothingToShow(options: ChartOptions): Html {
  return html`<figure class="chart">${caption(options)}<p class="empty-chart">No data in this period.</p>${
    options.zone === undefined ? '' : html`<div class="chart-foot"><span class="zone">Time zone: ${options.zone}</span></div>`
  }</figure>`;
}

function caption({ title, hideTitle }: ChartOptions): Html {
  return html`<figcaption${hideTitle ? html` class="hidden"` : ''}>${title}</figcaption>`;
}

function renderLegend(items: readonly Legend[]): Html {
  return html`<ul class="legend">${items.map(
    ({ name, className, href }) =>
      html`<li><span class="swatch ${className}"></span>${href === undefined ? name : html`<a href="${href}">${name}</a>`}</li>`,
  )}</ul>`;
}

function dataTable({ title, series, buckets, format, bucketName = 'Period' }: ChartOptions): Html {
  const head = series.map(({ name }) => html`<th scope="col" class="end">${name}</th>`);
  const rows = buckets.map(({ label, values, href }) => {
    const cells = series.map((_, index) => {
      const value = values[index] ?? null;
      return html`<td class="end">${value === null ? '–' : format(value)}</td>`;
    });
    return html`<tr><th scope="row">${href === undefined ? label : html`<a href="${href}">${label}</a>`}</th>${cells}</tr>`;
  });
  return html`<details class="chart-data"><summary>Show as table</summary><div class="table-frame scroll" tabindex="0" role="region" aria-label="${title}"><table class="plain"><caption class="hidden">${title}</caption><thead><tr><th scope="col">${bucketName}</th>${head}</tr></thead><tbody>${rows}</tbody></table></div></details>`;
}
