/** The audit log: administrative actions that change records, written in the transaction that performs them. */
import type { Queries } from './database.ts';

export interface AuditEntry {
  readonly at: number;
  /** The credential that authorized the action. */
  readonly actor: 'admin_token';
  readonly action: string;
  /** Ids, times, model names and counts; no personal data. */
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
