import { playgroundApplication } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { type CalendarUnit, splitRange } from '../../core/time-zone.ts';
import type { CallFilter } from '../../usage/analytics/call-filter.ts';
import { type Group, groupNames } from '../../usage/analytics/figures-request.ts';
import { type Metric, metrics } from '../../usage/analytics/metrics.ts';
import { maxChartUnits, parseRange, type Range, unitFor } from '../../usage/analytics/range.ts';
import { readCallFilter } from '../frame/call-filters.ts';
import type { ConsoleContext } from '../frame/route.ts';

/** If people select this group, we show refused calls, which are stored separately from other calls. */
export const refusalGroup = 'refusal';

export const units: readonly CalendarUnit[] = ['hour', 'day', 'week', 'month'];

export interface View {
  readonly range: Range;
  readonly filter: CallFilter;
  readonly metric: Metric;
  readonly group: Group | null;
  /** True if the page shows refused calls by reason, in which case `group` is null. */
  readonly isOfRefusals: boolean;
  /**
   * The unit of time that the person has chosen. The chart uses `chartUnit` instead, which is coarser if the period has
   * too many of these units.
   */
  readonly unit: CalendarUnit;
  readonly chartUnit: CalendarUnit;
}

/** Only calls from the playground have a person, so grouping by person leaves out all others. */
export function requestedFilter({ group, filter }: Pick<View, 'group' | 'filter'>): CallFilter {
  if (group !== 'person' || filter.source !== undefined) return filter;
  const { own: _own, ...others } = filter;
  return { ...others, source: playgroundApplication };
}

export function readView(context: ConsoleContext): View {
  const { zone, now } = context;
  const { searchParams } = context.url;
  const range = parseRange(searchParams, { zone, now });
  const metricName = searchParams.get('metric') || metrics[0].name;
  const metric = metrics.find(({ name }) => name === metricName);
  if (!metric) throw gatewayError('bad_request', { message: `metric: must be one of ${metrics.map(({ name }) => name).join(', ')}` });
  const groupName = searchParams.get('group') || 'model';
  const isOfRefusals = groupName === refusalGroup;
  const group = groupName === 'none' || isOfRefusals ? null : groupNames.find((name) => name === groupName);
  if (group === undefined)
    throw gatewayError('bad_request', { message: `group: must be none, ${refusalGroup}, or one of ${groupNames.join(', ')}` });
  const unitText = searchParams.get('unit') || unitFor(range);
  const unit = [...units, 'minute' as const].find((name) => name === unitText);
  if (!unit) throw gatewayError('bad_request', { message: `unit: must be one of ${units.join(', ')}` });
  const fits = splitRange(unit, zone, range, maxChartUnits) !== null;
  return { range, filter: readCallFilter(context), metric, group, isOfRefusals, unit, chartUnit: fits ? unit : unitFor(range) };
}
