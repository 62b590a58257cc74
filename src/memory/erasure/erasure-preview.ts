/**
 * Counts what erasing a subject would delete right now, without locking anything. The counts have the same names as in
 * the receipt of an erasure.
 */
import { hashSubject } from '../../core/subject.ts';
import type { Queries } from '../../db/database.ts';
import { bySubject, type ErasedCount, subjectTables } from './subject-tables.ts';

/**
 * How much an erasure would delete. `call_parts` is missing, because counting them means finding out which parts other
 * calls still use, and only the erasure itself does that.
 */
export type ErasurePreview = Readonly<Record<Exclude<ErasedCount, 'call_parts'>, number>> & {
  readonly prompts: number;
};

export async function previewErasure(queries: Queries, projectId: string, subject: string): Promise<ErasurePreview> {
  const counts = { memories: 0, profile_pages: 0, episodes: 0, calls: 0, graph_facts: 0, prompts: 0 };
  for (const { table, where, bySha256, count } of subjectTables) {
    const name = table === 'call_texts' ? 'prompts' : count;
    if (name === undefined || name === 'call_parts') continue;
    const [row] = await queries.query<{ count: number }>(`select count(*)::integer as count from ${table} where ${where(bySubject)}`, [
      projectId,
      bySha256 ? hashSubject(subject) : subject,
    ]);
    counts[name] = row?.count ?? 0;
  }
  return counts;
}
