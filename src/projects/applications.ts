/**
 * Settings of applications, which override those of their project. They're loaded together with the project, so that
 * calls don't need another query. A change makes every process drop the project from its cache.
 */
import { gatewayError } from '../core/errors.ts';
import { type Clock, formatTimeOrNull } from '../core/time.ts';
import type { Queries } from '../db/database.ts';
import {
  type ApplicationSettings,
  parseApplicationChange,
  parseStoredApplication,
  sourceIssues,
  toApplicationSettings,
  toApplicationSettingsJson,
} from './application-settings.ts';
import { type ChangeProjectOptions, changeProject } from './change-project.ts';
import { assertNotModified, type ReadSettings } from './optimistic-lock.ts';

export interface Application {
  readonly source: string;
  readonly settings: ApplicationSettings;
  /** Null if the application has no settings of its own, only defaults. */
  readonly createdAt: number | null;
  readonly updatedAt: number | null;
}

/** Projects are loaded with all of their applications, so we need a limit. */
const maxApplications = 1_000;

export type Applications = ReturnType<typeof createApplications>;

export function createApplications(options: ChangeProjectOptions & { readonly clock: Clock }) {
  const { database, clock } = options;
  return {
    /**
     * Creates or changes the settings of an application. Settings that `input` leaves out stay the same. Throws
     * `bad_request`, or `conflict` if a setting no longer has the value in `read`.
     */
    async put(projectId: string, source: string, input: unknown, read?: ReadSettings): Promise<Application> {
      const change = parseApplicationChange(source, input);
      const now = new Date(clock.now());
      const row = await changeProject(options, projectId, async (tx) => {
        // Lock the project, because concurrent partial updates could overwrite each other or exceed the maximum number
        // of applications.
        await tx.query('select id from projects where id = $1::uuid for update', [projectId]);
        const current = await readRow(tx, projectId, source);
        if (!current) {
          const [count] = await tx.query<{ isFull: boolean }>(
            `select count(*) >= $2::bigint as "isFull" from applications where project_id = $1::uuid`,
            [projectId, maxApplications],
          );
          if (count?.isFull)
            throw gatewayError('conflict', {
              message: `the project already has settings for ${maxApplications} applications; remove some first`,
            });
        }
        const stored = parseStoredApplication(current?.settings ?? {});
        assertNotModified(stored, read);
        const settings = change(stored);
        const [written] = await tx.query<ApplicationRow>(
          `insert into applications (project_id, source, settings, created_at, updated_at)
           values ($1::uuid, $2::text, $3::jsonb, $4::timestamptz, $4::timestamptz)
           on conflict (project_id, source) do update set settings = excluded.settings, updated_at = excluded.updated_at
           returning ${applicationColumns}`,
          [projectId, source, JSON.stringify(settings), now],
        );
        return written;
      });
      if (!row) throw gatewayError('not_found', { message: 'no such application' });
      return toApplication(row);
    },
    /** Resets an application to the default settings. Throws `not_found` if it has no settings. */
    async reset(projectId: string, source: string): Promise<Application> {
      assertSource(source);
      await changeProject(options, projectId, async (tx) => {
        const removed = await tx.query(`delete from applications where project_id = $1::uuid and source = $2::text returning source`, [
          projectId,
          source,
        ]);
        if (removed.length === 0) throw gatewayError('not_found', { message: 'the application has no settings' });
      });
      return unsetApplication(source);
    },
    /**
     * Returns the settings of an application. An unknown application has the defaults, because applications don't have
     * to be created.
     */
    async find(projectId: string, source: string): Promise<Application> {
      assertSource(source);
      const row = await readRow(database, projectId, source);
      return row ? toApplication(row) : unsetApplication(source);
    },
    /** Returns only applications with settings of their own, sorted by name. */
    async list(projectId: string): Promise<Application[]> {
      const rows = await database.query<ApplicationRow>(
        `select ${applicationColumns} from applications where project_id = $1::uuid order by source collate "C"`,
        [projectId],
      );
      return rows.map(toApplication);
    },
  };
}

export function toApplicationJson({ source, settings, createdAt, updatedAt }: Application): Record<string, unknown> {
  return {
    source,
    ...toApplicationSettingsJson(settings),
    created_at: formatTimeOrNull(createdAt),
    updated_at: formatTimeOrNull(updatedAt),
  };
}

export const applicationsSubquery = `(select coalesce(jsonb_object_agg(a.source, a.settings), '{}') from applications a where a.project_id = projects.id)`;

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

async function readRow(queries: Queries, projectId: string, source: string): Promise<ApplicationRow | undefined> {
  const [row] = await queries.query<ApplicationRow>(
    `select ${applicationColumns} from applications where project_id = $1::uuid and source = $2::text`,
    [projectId, source],
  );
  return row;
}

function unsetApplication(source: string): Application {
  return { source, settings: toApplicationSettings(parseStoredApplication({})), createdAt: null, updatedAt: null };
}

function toApplication(row: ApplicationRow): Application {
  return {
    source: row.source,
    settings: toApplicationSettings(parseStoredApplication(row.settings)),
    createdAt: row.createdAt.getTime(),
    updatedAt: row.updatedAt.getTime(),
  };
}

function assertSource(source: string): void {
  const issues = sourceIssues(source);
  if (issues.length > 0) throw gatewayError('bad_request', { issues });
}
