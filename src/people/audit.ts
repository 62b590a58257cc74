/**
 * The audit log. It has a row for each change that a person makes, or that somebody makes with the admin token. We
 * write the row before the change and add the outcome afterwards, so that no change can go unrecorded. If a row has no
 * outcome, the change is still in progress or was interrupted. Rows contain ids, names and changed settings, but no
 * secrets, subjects, e-mail addresses or contents of memories.
 */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { shownEmailSql } from './confirm.ts';

export type AuditActor = 'person' | 'personal_token' | 'admin_token';

export type AuditOutcome =
  | 'ok'
  /** The change was invalid or not allowed, or its target wasn't found. */
  | 'refused'
  | 'failed';

export type AuditDetail = Readonly<Record<string, unknown>>;

export interface AuditStart {
  readonly actor: AuditActor;
  /** The person who made the change. Null if the admin token was used. */
  readonly personId: string | null;
  /** The project that the change belongs to. Null for changes to the deployment. */
  readonly projectId: string | null;
  /** The name of the action, e.g. `key.issue`. */
  readonly action: string;
  /** The id, slug or prefix of the object that's being changed. */
  readonly target?: string | null;
}

/** What a change has done, if we could only guess it when we wrote the row. */
export type ActualChange = Pick<AuditStart, 'action' | 'projectId'>;

export interface AuditEntry {
  readonly id: number;
  readonly at: number;
  readonly actor: AuditActor;
  readonly personId: string | null;
  /** Null if the person has been deleted, or if the change was made with the admin token. */
  readonly person: { readonly email: string; readonly name: string } | null;
  readonly projectId: string | null;
  readonly project: string | null;
  readonly action: string;
  readonly target: string | null;
  /** Null while the change is in progress, or if it was interrupted. */
  readonly outcome: AuditOutcome | null;
  readonly detail: AuditDetail;
}

export interface AuditFilter {
  readonly projectId?: string | undefined;
  readonly personId?: string | undefined;
  /** An action, or several of them. */
  readonly action?: string | readonly string[] | undefined;
  /** Only return entries from this time on, in milliseconds since 1970. */
  readonly from?: number | undefined;
  /** Only return entries from before this time, in milliseconds since 1970. */
  readonly to?: number | undefined;
  /** Only return entries older than the one with this id. */
  readonly before?: number | undefined;
  readonly limit: number;
}

export type Audit = ReturnType<typeof createAudit>;

export function createAudit({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  return {
    /** Records a change that's about to be made, and returns the id of the row. */
    async begin({ actor, personId, projectId, action, target = null }: AuditStart): Promise<number> {
      const [row] = await database.query<{ id: number }>(
        `insert into audit_log (at, actor, person_id, project_id, action, target, detail)
         values ($1::timestamptz, $2::text, $3::uuid, $4::uuid, $5::text, $6::text, '{}') returning id`,
        [new Date(clock.now()), actor, personId, projectId, action, target],
      );
      if (!row) throw new Error('expected the insert into the audit log to return a row');
      return row.id;
    },
    /**
     * Records the outcome of a change, and merges `detail` into the details that were recorded at its beginning.
     * `actual` replaces the action and the project if they turned out to be different.
     */
    async finish(id: number, outcome: AuditOutcome, detail: AuditDetail = {}, actual: ActualChange | null = null): Promise<void> {
      await database.query(
        `update audit_log
            set outcome = $2::text, detail = detail || $3::jsonb,
                action = coalesce($4::text, action), project_id = coalesce($5::uuid, project_id)
          where id = $1::bigint`,
        [id, outcome, JSON.stringify(detail), actual?.action ?? null, actual?.projectId ?? null],
      );
    },
    async list({ projectId, personId, action, from, to, before, limit }: AuditFilter): Promise<AuditEntry[]> {
      const rows = await database.query<AuditRow>(
        `select audit_log.id, at, actor, person_id as "personId", ${shownEmailSql} as email, people.name,
                audit_log.project_id as "projectId",
                projects.slug as project, action, target, outcome, detail
         from audit_log
         left join people on people.id = person_id
         left join projects on projects.id = audit_log.project_id
         where ($1::uuid is null or audit_log.project_id = $1::uuid)
           and ($2::uuid is null or person_id = $2::uuid)
           and ($3::text[] is null or action = any($3::text[]))
           and ($4::timestamptz is null or at >= $4::timestamptz)
           and ($5::timestamptz is null or at < $5::timestamptz)
           and ($6::bigint is null or audit_log.id < $6::bigint)
         order by audit_log.id desc limit $7::integer`,
        [projectId ?? null, personId ?? null, toList(action), toDate(from), toDate(to), before ?? null, limit],
      );
      return rows.map(({ at, email, name, ...row }) => ({
        ...row,
        at: at.getTime(),
        person: email !== null && name !== null ? { email, name } : null,
      }));
    },
  };
}

interface AuditRow extends Omit<AuditEntry, 'at' | 'person'> {
  readonly at: Date;
  readonly email: string | null;
  readonly name: string | null;
}

function toList(action: string | readonly string[] | undefined): readonly string[] | null {
  return typeof action === 'string' ? [action] : (action ?? null);
}

function toDate(epochMs: number | undefined): Date | null {
  return epochMs === undefined ? null : new Date(epochMs);
}
