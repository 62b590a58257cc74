import type { Queries } from '../../db/database.ts';

export async function hasMemories(queries: Queries, projectId: string): Promise<boolean> {
  const rows = await queries.query(`select 1 from memory_items where project_id = $1::uuid and state = 'live' limit 1`, [projectId]);
  return rows.length > 0;
}
