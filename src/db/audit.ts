/** What was done by hand that changes records, written down in the transaction that does it. */
import type { Queries } from './database.ts';

export interface AuditEntry {
  readonly at: number;
  /** What kind of right it was done with. */
  readonly actor: 'admin_token';
  readonly action: string;
  /** Ids, times, names of models, and counts; nothing private. */
  readonly detail: Readonly<Record<string, unknown>>;
}

export async function writeAudit(tx: Queries, { at, actor, action, detail }: AuditEntry): Promise<void> {
  await tx.query('insert into audit_log (at, actor, action, detail) values ($1::timestamptz, $2::text, $3::text, $4::jsonb)', [
    new Date(at),
    actor,
    action,
    JSON.stringify(detail),
  ]);
}
