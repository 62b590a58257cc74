import type { CalendarUnit } from '../../core/time-zone.ts';
import { figureHeader, figureRows } from '../../usage/analytics/figure-rows.ts';
import type { Group } from '../../usage/analytics/figures-request.ts';
import type { FiguresReport } from '../../usage/analytics/read-figures.ts';
import type { ConsoleContext, CsvResult } from './route.ts';
import { unitStart } from './time-range.ts';
import { exactUsd } from './values.ts';

/** Renders figures as CSV, with a row for each unit and group. */
export function figuresCsv(
  { zone }: Pick<ConsoleContext, 'zone'>,
  fileName: string,
  report: FiguresReport,
  grouping: { readonly unit: CalendarUnit; readonly group: Group | null },
): CsvResult {
  const options = { zone, ...grouping, formatStart: (at: number) => unitStart(zone, at), formatUsd: exactUsd };
  return { kind: 'csv', fileName, header: figureHeader(options), rows: figureRows(report, options) };
}
