import type { Database, Queries } from '../db/database.ts';

export interface ChangeProjectOptions {
  readonly database: Database;
  /** NOTIFY channel for the ids of changed projects. */
  readonly channel: string;
  readonly onChange: (projectId: string) => void;
}

/** Changes a part of a project in a transaction, and makes every process drop the project from its cache. */
export async function changeProject<Result>(
  { database, channel, onChange }: ChangeProjectOptions,
  projectId: string,
  change: (tx: Queries) => Promise<Result>,
): Promise<Result> {
  const result = await database.transaction(async (tx) => {
    const changed = await change(tx);
    await tx.query('select pg_notify($1::text, $2::text)', [channel, projectId]);
    return changed;
  });
  onChange(projectId);
  return result;
}
