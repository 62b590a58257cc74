/**
 * Formats figures as table rows for export, with one row per unit of time and group, and one column per figure.
 */
import type { CalendarUnit } from '../../core/time-zone.ts';
import type { Figures } from './figures.ts';
import { type Group, isOfAttempts } from './figures-request.ts';
import { groupLabels, totalTokens } from './metrics.ts';
import type { FiguresReport } from './read-figures.ts';

type Cell = string | number | null;

export interface FigureRowsOptions {
  readonly zone: string;
  readonly unit: CalendarUnit | null;
  readonly group: Group | null;
  readonly formatStart: (at: number) => string;
  readonly formatUsd: (nanos: bigint) => string;
}

const figureNames = [
  ...[
    'errors',
    'cost_usd',
    'calls_of_unknown_cost',
    'tokens',
    'input_tokens',
    'cached_input_tokens',
    'cache_write_tokens',
    'output_tokens',
  ],
  ...['cache_hits', 'cache_lookups', 'latency_p50_ms', 'latency_p95_ms', 'first_chunk_p50_ms', 'first_chunk_p95_ms', 'failovers'],
];

export function figureHeader({ zone, unit, group }: FigureRowsOptions): string[] {
  return [
    ...(unit === null ? [] : [`${unit} (${zone})`]),
    ...(group === null ? [] : [groupLabels[group].toLowerCase()]),
    isOfAttempts(group) ? 'attempts' : 'calls',
    ...figureNames,
  ];
}

/**
 * If figures are grouped, rows without calls are left out. The group's name is empty for calls without a value, and
 * `(others)` for the sum of all groups that aren't among the top ones.
 */
export function* figureRows(report: FiguresReport, { unit, group, formatStart, formatUsd }: FigureRowsOptions): Generator<readonly Cell[]> {
  const labels = report.groups.map(({ kind, name }) => (kind === 'others' ? '(others)' : name));
  const parts = (total: Figures, groups: readonly Figures[]): [Cell[], Figures][] =>
    group === null
      ? [[[], total]]
      : groups.flatMap((figures, index): [Cell[], Figures][] => (figures.calls === 0 ? [] : [[[labels[index] ?? null], figures]]));
  if (unit === null) {
    const groups = report.groups.map(({ figures }) => figures);
    for (const [cells, figures] of parts(report.total, groups)) yield [...cells, ...toCells(figures, formatUsd)];
    return;
  }
  for (const { start, figures: total, groups } of report.units) {
    for (const [cells, figures] of parts(total, groups)) yield [formatStart(start), ...cells, ...toCells(figures, formatUsd)];
  }
}

function toCells(figures: Figures, formatUsd: (nanos: bigint) => string): Cell[] {
  const { calls, errors, costNanos, unpriced, tokens, cacheHits, cacheLookups, latency, firstChunk, failovers } = figures;
  return [
    ...[calls, errors, formatUsd(costNanos), unpriced, totalTokens(figures)],
    ...[tokens.input, tokens.cachedInput, tokens.cacheWrite, tokens.output, cacheHits, cacheLookups],
    ...[latency?.p50 ?? null, latency?.p95 ?? null, firstChunk?.p50 ?? null, firstChunk?.p95 ?? null, failovers],
  ];
}
