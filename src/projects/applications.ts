/**
 * What applications of a project override (shapes 19). They travel with the project: a change drops the project in every process, so that
 * nothing here is read on the path of a call.
 */
import { gatewayError } from '../core/errors.ts';
import { type Clock, formatTime } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import {
  type ApplicationSettings,
  parseApplicationChange,
  parseStoredApplication,
  toApplicationSettings,
  toApplicationSettingsJson,
} from './application-settings.ts';

export interface Application {
  readonly source: string;
  readonly settings: ApplicationSettings;
  /** Null: nobody has set anything, the settings are the defaults. */
  readonly createdAt: number | null;
  readonly updatedAt: number | null;
}

export interface Applications {
  /** Makes or changes what the application overrides; what the body leaves out stays. Throws `bad_request`, `conflict`. */
  put(projectId: string, source: string, input: unknown): Promise<Application>;
  /** An application that nobody has set anything for has the defaults (shapes 19: applications exist without being provisioned). */
  find(projectId: string, source: string): Promise<Application>;
  /** Those for which something was set, by name. */
  list(projectId: string): Promise<Application[]>;
}

export interface ApplicationsOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Sent with NOTIFY; its payload is the project's id. */
  readonly channel: string;
  readonly onChange: (projectId: string) => void;
}

/** They are loaded with their project, so there must be an end to them. */
const maxApplications = 1_000;
const maxSourceLength = 256;

export function createApplications({ database, clock, channel, onChange }: ApplicationsOptions): Applications {
  return {
    async put(projectId, source, input) {
      const change = parseApplicationChange(input);
      assertSource(source);
      const now = new Date(clock.now());
      const row = await database.transaction(async (tx) => {
        // One change of a project at a time: two that each set a part must both last, and the number of applications is counted.
        await tx.query('select id from projects where id = $1::uuid for update', [projectId]);
        const [current] = await tx.query<ApplicationRow>(
          `select ${applicationColumns} from applications where project_id = $1::uuid and source = $2::text`,
          [projectId, source],
        );
        if (!current) {
          const [count] = await tx.query<{ isFull: boolean }>(
            `select count(*) >= $2::bigint as "isFull" from applications where project_id = $1::uuid`,
            [projectId, maxApplications],
          );
          if (count?.isFull) throw gatewayError('conflict', { message: `the project has ${maxApplications} applications already` });
        }
        const settings = change.apply(parseStoredApplication(current?.settings ?? {}));
        const [written] = await tx.query<ApplicationRow>(
          `insert into applications (project_id, source, settings, created_at, updated_at)
           values ($1::uuid, $2::text, $3::jsonb, $4::timestamptz, $4::timestamptz)
           on conflict (project_id, source) do update set settings = excluded.settings, updated_at = excluded.updated_at
           returning ${applicationColumns}`,
          [projectId, source, JSON.stringify(settings), now],
        );
        await tx.query('select pg_notify($1::text, $2::text)', [channel, projectId]);
        return written;
      });
      onChange(projectId);
      if (!row) throw gatewayError('not_found', { message: 'no such application' });
      return toApplication(row);
    },
    async find(projectId, source) {
      assertSource(source);
      const [row] = await database.query<ApplicationRow>(
        `select ${applicationColumns} from applications where project_id = $1::uuid and source = $2::text`,
        [projectId, source],
      );
      return row
        ? toApplication(row)
        : { source, settings: toApplicationSettings(parseStoredApplication({})), createdAt: null, updatedAt: null };
    },
    async list(projectId) {
      const rows = await database.query<ApplicationRow>(
        `select ${applicationColumns} from applications where project_id = $1::uuid order by source collate "C"`,
        [projectId],
      );
      return rows.map(toApplication);
    },
  };
}

/** JSON of shapes 19. */
export function toApplicationJson({ source, settings, createdAt, updatedAt }: Application): Record<string, unknown> {
  return {
    source,
    ...toApplicationSettingsJson(settings),
    created_at: createdAt === null ? null : formatTime(createdAt),
    updated_at: updatedAt === null ? null : formatTime(updatedAt),
  };
}

/** All overrides of the project of the surrounding query, as one JSON object by source. */
export const applicationsSubquery = `(select coalesce(jsonb_object_agg(a.source, a.settings), '{}') from applications a where a.project_id = projects.id)`;

/** Reads what `applicationsOfProject` gave. */
export function parseApplications(bySource: Readonly<Record<string, unknown>>): ReadonlyMap<string, ApplicationSettings> {
  return new Map(Object.entries(bySource).map(([source, settings]) => [source, toApplicationSettings(parseStoredApplication(settings))]));
}

interface ApplicationRow {
  readonly source: string;
  readonly settings: unknown;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const applicationColumns = `source, settings, created_at as "createdAt", updated_at as "updatedAt"`;

function toApplication(row: ApplicationRow): Application {
  return {
    source: row.source,
    settings: toApplicationSettings(parseStoredApplication(row.settings)),
    createdAt: row.createdAt.getTime(),
    updatedAt: row.updatedAt.getTime(),
  };
}

/** Any name, counted in code points; U+0000 and half surrogate pairs cannot be stored, and no header can carry them. */
function assertSource(source: string): void {
  if (source !== '' && source.length <= 2 * maxSourceLength && [...source].length <= maxSourceLength && !/[\0\p{Cs}]/u.test(source)) return;
  throw gatewayError('bad_request', { message: `source: must be 1 to ${maxSourceLength} characters` });
}
