/**
 * Projects own keys, budgets and memory. `get` runs for every call, so it's synchronous if the project is cached. A
 * change makes every process drop the project from its cache (NOTIFY).
 */

import { gatewayError } from '../core/errors.ts';
import { newId } from '../core/ids.ts';
import { type Clock, formatTime } from '../core/time.ts';
import type { Database, Queries } from '../db/database.ts';
import { createNotifiedCache } from '../db/notified-cache.ts';
import { withQueryTimeout } from '../db/query-timeout.ts';
import { parseStoredRules } from '../guardrails/content-rule.ts';
import { type CompiledRules, compileRules } from '../guardrails/rules.ts';
import type { Logger } from '../observability/logger.ts';
import { applicationsSubquery, createApplications, parseApplications } from './applications.ts';
import { createContentRules } from './content-rules.ts';
import { assertNotModified, type ReadSettings } from './optimistic-lock.ts';
import { type ProjectSettings, parseProjectChange, parseStoredSettings, toProjectSettings, toSettingsJson } from './project-settings.ts';
import { createRuleHits } from './rule-hits.ts';

/** NOTIFY channel for the ids of projects that were created or changed, including their applications and rules. */
const projectChannel = 'gateway_projects';

export interface Project {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly settings: ProjectSettings & {
    readonly rules: CompiledRules;
    /**
     * The value of `performance.now()` just before the settings were read from the database. Lets us tell which of two
     * versions is newer.
     */
    readonly readAt: number;
  };
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface ProjectsOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger?: Pick<Logger, 'warn'>;
  /** Called when a project has been changed, no matter by which process. */
  readonly onChange?: (projectId: string) => void;
}

export type Projects = ReturnType<typeof createProjects>;

export function createProjects({ database, clock, logger, onChange }: ProjectsOptions) {
  const cache = createNotifiedCache<Project>({
    ...{ database, channel: projectChannel, clock, logger, onChange },
    load: async (projectId) => {
      const readAt = performance.now();
      const query = database.query<ProjectRow>(`select ${projectColumns} from projects where id = $1::uuid`, [projectId]);
      const rows = await withQueryTimeout(database, query).catch((cause: unknown) => {
        throw gatewayError('keystore_unavailable', { message: 'the project cannot be read at the moment; try again later', cause });
      });
      return rows[0] ? toProject(rows[0], readAt) : null;
    },
  });

  const readProjects = async (clauses: string, ...values: readonly unknown[]): Promise<Project[]> => {
    const readAt = performance.now();
    const rows = await database.query<ProjectRow>(`select ${projectColumns} from projects ${clauses}`, values);
    return rows.map((row) => toProject(row, readAt));
  };

  /**
   * Creates or changes a project. Anything that the body leaves out stays the same. Throws `conflict` if the name or a
   * setting no longer has the value in `read`. `previous` is the project before the change, or null if it's new.
   */
  const put = async (
    slug: string,
    input: unknown,
    read?: ReadSettings,
  ): Promise<{ project: Project; previous: Project | null; created: boolean }> => {
    const change = parseProjectChange(slug, input);
    const now = clock.now();
    const readAt = performance.now();
    const result = await database.transaction(async (tx) => {
      const created = await insertProject(tx, slug, now);
      const [current] = await tx.query<ProjectRow>(`select ${projectColumns} from projects where slug = $1::text for update`, [slug]);
      if (!current) throw gatewayError('not_found', { message: 'no such project' });
      const stored = parseStoredSettings(current.settings);
      assertNotModified({ ...stored, name: current.name }, read);
      const settings = change.apply(stored);
      const [row] = await tx.query<ProjectRow>(
        `update projects
            set name = $2::text, settings = $3::jsonb - 'required_tags', updated_at = $4::timestamptz,
                required_tags = array(select jsonb_array_elements_text($3::jsonb -> 'required_tags'))
          where id = $1::uuid returning ${projectColumns}`,
        [current.id, change.name ?? current.name, JSON.stringify(settings), new Date(now)],
      );
      if (!row) throw gatewayError('not_found', { message: 'no such project' });
      await tx.query('select pg_notify($1::text, $2::text)', [projectChannel, row.id]);
      return { project: toProject(row, readAt), previous: created ? null : toProject(current, readAt), created };
    });
    cache.invalidate(result.project.id);
    return result;
  };

  const ruleHits = createRuleHits({ database, clock, logger });
  return {
    ruleHits,
    applications: createApplications({ database, clock, channel: projectChannel, onChange: cache.invalidate }),
    contentRules: createContentRules({ database, clock, channel: projectChannel, onChange: cache.invalidate }),
    /**
     * Rejects with `not_found` if the project doesn't exist, and with `keystore_unavailable` if it isn't cached and the
     * database doesn't respond.
     */
    get: async (projectId: string): Promise<Project> => requireProject(await cache.get(projectId)),
    /** Loads projects into the cache, so that their first calls don't have to wait for the database. */
    warm: (projectIds: readonly string[]): Promise<void> =>
      cache.warm(
        projectIds,
        async (ids) => new Map((await readProjects('where id = any($1::uuid[])', ids)).map((project) => [project.id, project])),
      ),
    findBySlug: async (slug: string): Promise<Project | null> => (await readProjects('where slug = $1::text', slug))[0] ?? null,
    put,
    list: (): Promise<Project[]> => readProjects('order by slug'),
    start: cache.start,
    async stop(): Promise<void> {
      await Promise.all([ruleHits.stop(), cache.stop()]);
    },
  };
}

export function toProjectJson(project: Project): Record<string, unknown> {
  return {
    id: project.id,
    project: project.slug,
    name: project.name,
    ...toSettingsJson(project.settings),
    created_at: formatTime(project.createdAt),
    updated_at: formatTime(project.updatedAt),
  };
}

interface ProjectRow {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly settings: unknown;
  readonly rules: unknown;
  readonly applications: Readonly<Record<string, unknown>>;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/**
 * Required tags have a column of their own, because an older process could drop them from `settings` during an upgrade.
 */
const projectColumns = `id, slug, name, settings || jsonb_build_object('required_tags', required_tags) as settings, rules, ${applicationsSubquery} as applications, created_at as "createdAt", updated_at as "updatedAt"`;

/** Inserts a project and uses the slug as its name. Returns false if the slug is taken. */
async function insertProject(tx: Queries, slug: string, now: number): Promise<boolean> {
  const rows = await tx.query(
    `insert into projects (id, slug, name, settings, created_at, updated_at)
     values ($1::uuid, $2::text, $2::text, '{}', $3::timestamptz, $3::timestamptz)
     on conflict (slug) do nothing returning id`,
    [newId(now), slug, new Date(now)],
  );
  return rows.length > 0;
}

function toProject(row: ProjectRow, readAt: number): Project {
  return Object.freeze({
    id: row.id,
    slug: row.slug,
    name: row.name,
    settings: {
      ...toProjectSettings(parseStoredSettings(row.settings), parseApplications(row.applications)),
      rules: compileRules(parseStoredRules(row.rules)),
      readAt,
    },
    createdAt: row.createdAt.getTime(),
    updatedAt: row.updatedAt.getTime(),
  });
}

function requireProject(project: Project | null): Project {
  if (!project) throw gatewayError('not_found', { message: 'no such project' });
  return project;
}
