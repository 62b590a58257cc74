/**
 * Reads the figures of the deployment overview for a period and the one before. Apart from ceilings of the listed keys,
 * the number of queries doesn't depend on the number of projects.
 */
import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import { memoryApplication, playgroundApplication } from '../../core/call.ts';
import { isUuid } from '../../core/ids.ts';
import { monthAt } from '../../core/time.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import type { Project } from '../../projects/projects.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import { type DeploymentFigures, type NamedFigures, noDeploymentFigures } from '../../usage/analytics/deployment-figures.ts';
import { type Period, type Range, unitFor } from '../../usage/analytics/range.ts';
import { maxPageRows, type TooManyCalls } from '../../usage/analytics/row-limit.ts';
import { type CeilingUse, countersOf, toUses } from '../frame/ceilings.ts';
import type { ProviderHealth, ReadHealth } from '../frame/provider-health.ts';
import { orTooMany } from '../frame/row-limit.ts';

export interface DeploymentDeps {
  readonly listProjects: () => Promise<readonly Project[]>;
  readonly analytics: Pick<Analytics, 'deployment'>;
  readonly findKeys: (ids: readonly string[]) => Promise<readonly KeyRecord[]>;
  readonly findNames: (personIds: readonly string[]) => Promise<ReadonlyMap<string, string>>;
  readonly readCounters: ReadCounters;
  readonly readHealth: ReadHealth;
  readonly providerNames: () => readonly string[];
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
}

export interface Compared {
  readonly current: DeploymentFigures;
  readonly previous: DeploymentFigures;
}

export interface ProjectFigures extends Compared {
  readonly project: Project;
  /** The project's spend in the current calendar month (UTC). Null if it has no cap. */
  readonly monthNanos: bigint | null;
}

/** Reading more projects would take too long, so only the first ones by slug are shown. */
export const maxProjects = 2_000;
const maxRows = 10;
/** How many models and providers are listed, largest first. The totals include all of them. */
const maxGroups = 200;

export async function readProjects(
  { analytics }: Pick<DeploymentDeps, 'analytics'>,
  projects: readonly Project[],
  { range, now, signal }: { readonly range: Period & Pick<Range, 'previous'>; readonly now: number; readonly signal: AbortSignal },
): Promise<readonly ProjectFigures[]> {
  const projectIds = projects.map(({ id }) => id);
  const capped = projects.filter(({ settings }) => settings.monthlyCapNanos !== null).map(({ id }) => id);
  const month = monthAt(now);
  const read = (ids: readonly string[], { from, to }: Period): Promise<NamedFigures[]> =>
    ids.length === 0
      ? Promise.resolve([])
      : analytics.deployment.figures({ projectIds: ids, from, to, scope: 'project', limit: ids.length, signal });
  const [current, previous, spent] = await Promise.all([
    read(projectIds, range),
    read(projectIds, range.previous),
    read(capped, { from: month.start, to: month.end }),
  ]);
  const [byId, byIdBefore, spentById] = [byName(current), byName(previous), byName(spent)];
  return projects.map((project) => ({
    project,
    current: byId.get(project.id) ?? noDeploymentFigures,
    previous: byIdBefore.get(project.id) ?? noDeploymentFigures,
    monthNanos: project.settings.monthlyCapNanos === null ? null : (spentById.get(project.id)?.costNanos ?? 0n),
  }));
}

export interface KeyFigures extends Compared {
  readonly key: KeyRecord;
  readonly project: Project;
  readonly uses: readonly CeilingUse[];
}

export async function readKeys(
  { analytics, findKeys, readCounters }: DeploymentDeps,
  projects: readonly Project[],
  { range, now, signal }: { readonly range: Range; readonly now: number; readonly signal: AbortSignal },
): Promise<readonly KeyFigures[]> {
  const projectIds = projects.map(({ id }) => id);
  const request = { projectIds, scope: 'key', signal } as const;
  const current = await analytics.deployment.figures({ ...request, from: range.from, to: range.to, limit: maxRows });
  const names = current.flatMap(({ name }) => name ?? []);
  const [previous, keys] = await Promise.all([
    names.length === 0 ? [] : analytics.deployment.figures({ ...request, ...range.previous, names, limit: maxRows }),
    findKeys(names),
  ]);
  const before = byName(previous);
  const rows = current.flatMap((figures) => {
    const key = keys.find(({ id }) => id === figures.name);
    const project = projects.find(({ id }) => id === key?.projectId);
    return key && project ? [{ key, project, current: figures, previous: before.get(key.id) ?? noDeploymentFigures }] : [];
  });
  return Promise.all(
    rows.map(async (row) => {
      const { key, project } = row;
      const lasting = { cost: key.ceilings.cost, calls: key.ceilings.calls };
      const counters = countersOf({ projectId: project.id, scope: 'key', scopeId: key.quotaKeyId }, lasting, now);
      const counted =
        counters.length === 0
          ? new Map()
          : await readCounters(
              project.id,
              counters.map((counter) => counter.key),
            );
      return { ...row, uses: toUses(counters, counted) };
    }),
  );
}

export interface NamedComparison extends Compared {
  readonly name: string | null;
}

export async function readPeople(
  { analytics, findNames }: DeploymentDeps,
  projectIds: readonly string[],
  { range, signal }: { readonly range: Range; readonly signal: AbortSignal },
): Promise<readonly NamedComparison[]> {
  const read = (period: Period) =>
    analytics.deployment.playground({ projectIds, application: playgroundApplication, ...period, limit: maxGroups, signal });
  const [current, previous] = await Promise.all([read(range), read(range.previous)]);
  const shown = compare(current, previous).slice(0, maxRows);
  const names = await findNames(shown.flatMap(({ name }) => (name !== null && isUuid(name) ? [name] : [])));
  return shown.map((row) => ({ ...row, name: names.get(row.name ?? '') ?? null }));
}

export async function readModels(
  { analytics }: DeploymentDeps,
  projectIds: readonly string[],
  { range, signal }: { readonly range: Range; readonly signal: AbortSignal },
): Promise<readonly NamedComparison[]> {
  const read = ({ from, to }: Period) => analytics.deployment.figures({ projectIds, scope: 'model', from, to, limit: maxGroups, signal });
  const [current, previous] = await Promise.all([read(range), read(range.previous)]);
  return compare(current, previous).slice(0, maxRows);
}

export interface ProviderFigures {
  readonly name: string;
  /** Null if counting the attempts would take too many call rows. */
  readonly attempts: Compared | null;
  readonly health: ProviderHealth;
}

export async function readProviders(
  { analytics, readHealth, providerNames }: DeploymentDeps,
  projectIds: readonly string[],
  {
    range,
    now,
    signal,
    isComplete,
  }: { readonly range: Range; readonly now: number; readonly signal: AbortSignal; readonly isComplete: boolean },
): Promise<{ readonly rows: readonly ProviderFigures[]; readonly tooMany: TooManyCalls | null }> {
  const limit = isComplete ? Number.MAX_SAFE_INTEGER : maxPageRows;
  const read = ({ from, to }: Period) =>
    orTooMany(analytics.deployment.providers({ projectIds, from, to, maxRows: Math.min(limit, 2_000_000_000), signal }));
  const [current, previous, healthOf] = await Promise.all([read(range), read(range.previous), readHealth(now)]);
  const tooMany = [current, previous].find((result) => !Array.isArray(result)) ?? null;
  const rows = Array.isArray(current) && Array.isArray(previous) ? compare(current, previous) : null;
  const used = (rows ?? []).flatMap(({ name }) => name ?? []);
  const names = [...new Set([...providerNames(), ...used])];
  return {
    tooMany: tooMany as TooManyCalls | null,
    rows: names.map((name) => ({
      name,
      attempts: rows && (rows.find((row) => row.name === name) ?? { current: noDeploymentFigures, previous: noDeploymentFigures }),
      health: healthOf(name),
    })),
  };
}

/**
 * Returns the cost of the gateway's own calls for memory, which is already included in all other figures of the
 * overview.
 */
export async function readOwnCalls(
  { analytics }: DeploymentDeps,
  projectIds: readonly string[],
  { range, signal }: { readonly range: Range; readonly signal: AbortSignal },
): Promise<DeploymentFigures> {
  const names = [memoryApplication];
  const [own] = await analytics.deployment.figures({
    projectIds,
    scope: 'source',
    names,
    from: range.from,
    to: range.to,
    limit: 1,
    signal,
  });
  return own ?? noDeploymentFigures;
}

export function readChart(
  { analytics }: DeploymentDeps,
  projectIds: readonly string[],
  {
    range,
    zone,
    shown,
    signal,
  }: { readonly range: Range; readonly zone: string; readonly shown: readonly string[]; readonly signal: AbortSignal },
) {
  const unit = unitFor(range);
  return analytics.deployment.costs({
    projectIds,
    from: range.from,
    to: range.to,
    zone,
    unit: unit === 'minute' ? 'hour' : unit,
    shown,
    signal,
  });
}

export function sumOf(figures: readonly DeploymentFigures[]): DeploymentFigures {
  return figures.reduce(
    (sum, each) => ({
      calls: sum.calls + each.calls,
      errors: sum.errors + each.errors,
      costNanos: sum.costNanos + each.costNanos,
      unpriced: sum.unpriced + each.unpriced,
    }),
    noDeploymentFigures,
  );
}

function compare(current: readonly NamedFigures[], previous: readonly NamedFigures[]): NamedComparison[] {
  const before = byName(previous);
  const gone = previous.filter(({ name }) => !current.some((row) => row.name === name));
  return [
    ...current.map((figures) => ({ name: figures.name, current: figures, previous: before.get(figures.name) ?? noDeploymentFigures })),
    ...gone.map((figures) => ({ name: figures.name, current: noDeploymentFigures, previous: figures })),
  ];
}

function byName(rows: readonly NamedFigures[]): ReadonlyMap<string | null, NamedFigures> {
  return new Map(rows.map((row) => [row.name, row]));
}
