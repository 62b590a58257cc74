/** SQL of rows that add up to the calls of a project that match filters: cells of hours and days, and call rows where there are none. */
import { minIdAt } from '../../core/ids.ts';
import { type CallFilter, matchesValue, type Parameters, whereFilter } from '../analytics/call-filter.ts';
import { type Group, groupColumns } from '../analytics/figures-request.ts';
import type { Period } from '../analytics/range.ts';
import { attemptMeasures, callMeasures, type Histogram, histogramRows, type Measure } from '../rollups/parts.ts';
import { splitSegments } from '../rollups/spans.ts';
import { type CellScope, cellGroupSql, whereCell } from './cell-scope.ts';
import type { CellCover } from './cover.ts';

export interface CellRequest {
  readonly projectId: string;
  readonly scope: CellScope;
  readonly filter: CallFilter;
  /** Becomes the column `name`. */
  readonly group: Group | null;
  readonly cover: CellCover;
}

/** A subquery with the columns `at` (a time in the period of its calls), `name` and the measures. */
export function selectCells(request: CellRequest, wanted: readonly Measure[], parameters: Parameters): string {
  const { cells, rows } = sourcesOf(request, parameters);
  const measures = request.scope === 'provider' ? attemptMeasures : callMeasures;
  return `
    select cell.start as at, ${cells.name} as name, ${wanted.map((measure) => `cell.${measure}`).join(', ')}
      from ${cells.from} where ${cells.where}
    union all
    select c.started_at, ${rows.name}, ${wanted.map((measure) => measures[measure]).join(', ')} from ${rows.from} where ${rows.where}`;
}

/** A subquery with the columns `at`, `name`, `slot` and `n`: calls by slot of the histogram. */
export function selectCellHistogram(request: CellRequest, histogram: Histogram, parameters: Parameters): string {
  const { cells, rows } = sourcesOf(request, parameters);
  const { column, isTimed } = histogramRows(histogram, request.scope === 'provider' ? 'a' : 'c');
  return `
    select cell.start as at, ${cells.name} as name, element & 1023 as slot, element >> 10 as n
      from ${cells.from} cross join lateral unnest(cell.${histogram}) as element where ${cells.where}
    union all
    select c.started_at, ${rows.name}, usage_slot(${column}), 1 from ${rows.from} where ${rows.where} and ${isTimed}`;
}

interface Source {
  readonly name: string;
  readonly from: string;
  readonly where: string;
}

function sourcesOf({ projectId, scope, filter, group, cover }: CellRequest, parameters: Parameters): { cells: Source; rows: Source } {
  const { add } = parameters;
  const project = `${add(projectId)}::uuid`;
  const name = scope === 'project' || scope === 'provider' ? undefined : filter[scope];
  // With a name, each span is a lookup in the index.
  const segments = name === undefined ? cover.segments : splitSegments(cover.segments);
  const inSegment =
    name === undefined
      ? 'cell.start >= segment.first and cell.start < segment.after'
      : `cell.start = segment.first and ${matchesValue('cell.name', name, parameters)}`;
  const times = (side: keyof Period): string => `${add(segments.map((segment) => new Date(segment[side])))}::timestamptz[]`;
  const ids = (side: keyof Period): string => `${add(cover.edges.map((edge) => minIdAt(edge[side])))}::uuid[]`;
  // `offset 0`: see rollups/parts.ts.
  return {
    cells: {
      name: group === null ? 'null::text' : cellGroupSql(scope, group),
      from: `unnest(${add(segments.map(({ span }) => span))}::text[], ${times('from')}, ${times('to')}) as segment (span, first, after)
       cross join lateral (
         select cell.* from usage_cells cell
          where cell.project_id = ${project} and cell.scope = '${scope}' and cell.span = segment.span and ${inSegment}
         offset 0
       ) as cell`,
      where: whereCell(scope, filter, parameters),
    },
    rows: {
      name: group === null ? 'null::text' : groupColumns[group],
      from: `unnest(${ids('from')}, ${ids('to')}) as edge (first, after)
       cross join lateral (
         select c.* from calls c where c.project_id = ${project} and c.id >= edge.first and c.id < edge.after offset 0
       ) as c
       ${scope === 'provider' ? 'cross join lateral (select a.* from attempts a where a.call_id = c.id offset 0) as a' : ''}`,
      where: whereFilter(filter, parameters),
    },
  };
}
