/** Reads usage for views and exports. Every query is a range of call ids of one project; none reads texts. */
import type { Queries } from '../../db/database.ts';
import { readCallDetail } from './call-detail.ts';
import type { CallSelection } from './call-filter.ts';
import { type CallPageRequest, readCallPage, streamCalls } from './call-list.ts';
import type { Period } from './range.ts';
import { type FiguresRequest, type Group, readFigures, readTop, type TopRequest } from './read-figures.ts';
import { readRecentUse } from './recent-use.ts';

export type Analytics = ReturnType<typeof createAnalytics>;

export function createAnalytics(queries: Queries) {
  return {
    figures: (request: FiguresRequest) => readFigures(queries, request),
    top: (request: TopRequest, group: Group) => readTop(queries, request, group),
    callPage: (request: CallPageRequest) => readCallPage(queries, request),
    streamCalls: (selection: CallSelection) => streamCalls(queries, selection),
    /** Null when the project has no such call. */
    call: (projectId: string, callId: string) => readCallDetail(queries, projectId, callId),
    recentUse: (projectId: string, period: Period) => readRecentUse(queries, projectId, period),
    async hasCalls(projectId: string): Promise<boolean> {
      const rows = await queries.query('select 1 from calls where project_id = $1::uuid order by id desc limit 1', [projectId]);
      return rows.length > 0;
    },
  };
}
