/**
 * Reads usage for the console and for exports. Every query is for one project and a range of call ids, and no query
 * reads the text of calls. Queries can take seconds, so each process has a single `Analytics` instance. It only runs a
 * few queries at a time, and drops a waiting query if its client disconnects.
 */
import type { Database, Queries } from '../../db/database.ts';
import { createQuerySlots } from '../../db/query-slots.ts';
import {
  countRefused,
  countRefusedByUnit,
  findRecorded,
  findRefused,
  listRefused,
  type RefusalPageRequest,
  type RefusalSelection,
} from '../refusals/read-refusals.ts';
import { readCallDetail } from './call-detail.ts';
import type { CallSelection } from './call-filter.ts';
import { type CallPageRequest, readCallPage, readCallsById, streamCalls } from './call-list.ts';
import { readDeploymentCosts, readDeploymentFigures, readPlaygroundFigures } from './deployment-figures.ts';
import { readDeploymentProviders, readRecentAttempts } from './deployment-providers.ts';
import type { FiguresRequest, Group, TopRequest } from './figures-request.ts';
import { findCalls } from './find-calls.ts';
import { readKeyUse } from './key-use.ts';
import type { Period } from './range.ts';
import { readFigures, readTop } from './read-figures.ts';
import { readRecentUse } from './recent-use.ts';
import { readSubjectCalls, readSubjectUse } from './subject-calls.ts';
import { countVotes } from './vote-counts.ts';

export type Analytics = ReturnType<typeof createAnalytics>;

/**
 * Leaves most of the pool's ten connections for other work. The embedded database has only one session, so it runs one
 * query at a time anyway.
 */
const maxQueries = 3;

export function createAnalytics(database: Pick<Database, 'kind' | 'query'>) {
  const slots = createQuerySlots(database.kind === 'embedded' ? 1 : maxQueries);
  const queriesOf = ({ signal }: Pick<CallSelection, 'signal'>): Queries => ({
    query: (text, values) => slots.run(() => database.query(text, values), signal),
  });
  const queries = queriesOf({});
  return {
    figures: (request: FiguresRequest) => readFigures(queriesOf(request), request),
    top: (request: TopRequest, group: Group) => readTop(queriesOf(request), request, group),
    callPage: (request: CallPageRequest) => readCallPage(queriesOf(request), request),
    streamCalls: (selection: CallSelection) => streamCalls(queriesOf(selection), selection),
    callsById: (projectId: string, callIds: readonly string[]) => readCallsById(queries, projectId, callIds),
    call: (projectId: string, callId: string) => readCallDetail(queries, projectId, callId),
    find: (projectId: string, text: string) => findCalls(queries, projectId, text),
    keyUse: (projectId: string, request: Period & { readonly keyIds: readonly string[] }) => readKeyUse(queries, projectId, request),
    refusedPage: (request: RefusalPageRequest & Pick<CallSelection, 'signal'>) => listRefused(queriesOf(request), request),
    refusedCounts: (selection: RefusalSelection & Period & Pick<CallSelection, 'signal'>) => countRefused(queriesOf(selection), selection),
    refusedByUnit: (request: Parameters<typeof countRefusedByUnit>[1] & Pick<CallSelection, 'signal'>) =>
      countRefusedByUnit(queriesOf(request), request),
    /** Resolves with null if the project has no recorded refusal with this id. */
    refusedCall: (projectId: string, callId: string) => findRefused(queries, projectId, callId),
    recordedRefusals: (projectId: string, callIds: readonly string[]) => findRecorded(queries, projectId, callIds),
    votes: (selection: CallSelection) => countVotes(queriesOf(selection), selection),
    recentUse: (projectId: string, period: Period) => readRecentUse(queries, projectId, period),
    subjectCalls: (projectId: string, sha256: string) => readSubjectCalls(queries, projectId, sha256),
    subjectUse: (projectId: string, hashes: readonly string[]) => readSubjectUse(queries, projectId, hashes),
    deployment: {
      figures: (request: Parameters<typeof readDeploymentFigures>[1]) => readDeploymentFigures(queriesOf(request), request),
      costs: (request: Parameters<typeof readDeploymentCosts>[1]) => readDeploymentCosts(queriesOf(request), request),
      playground: (request: Parameters<typeof readPlaygroundFigures>[1]) => readPlaygroundFigures(queriesOf(request), request),
      providers: (request: Parameters<typeof readDeploymentProviders>[1]) => readDeploymentProviders(queriesOf(request), request),
      recentAttempts: (since: number) => readRecentAttempts(queries, since),
    },
    async hasCalls(projectId: string): Promise<boolean> {
      const rows = await queries.query('select 1 from calls where project_id = $1::uuid order by id desc limit 1', [projectId]);
      return rows.length > 0;
    },
  };
}
