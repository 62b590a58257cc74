/** Counts the votes on memories that recall has put into calls. */
import { minIdAt } from '../../core/ids.ts';
import type { Queries } from '../../db/database.ts';
import { type CallSelection, createParameters, whereCalls } from './call-filter.ts';

export interface VoteCounts {
  readonly useful: number;
  readonly wrong: number;
}

/**
 * Counts the votes that belong to the selected calls. If a key has voted on the same memory several times, only the
 * last vote counts.
 */
export async function countVotes(queries: Queries, selection: CallSelection): Promise<VoteCounts> {
  const parameters = createParameters();
  const { add } = parameters;
  const where = whereCalls(selection, parameters);
  const [row] = await queries.query<VoteCounts>(
    `select count(*) filter (where vote.useful)::float8 as useful, count(*) filter (where not vote.useful)::float8 as wrong
       from memory_votes vote join calls c on c.id = vote.call_id
      where vote.project_id = ${add(selection.projectId)}::uuid
        and vote.call_id >= ${add(minIdAt(selection.from))}::uuid and vote.call_id < ${add(minIdAt(selection.to))}::uuid and ${where}`,
    parameters.values,
  );
  return row ?? { useful: 0, wrong: 0 };
}
