/**
 * Reads the figures of the deployment overview, for the selected period and the previous one. Except for the ceilings,
 * which we read for each key in the list, the number of queries doesn't depend on the number of projects.
 */
import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import { memoryApplication, playgroundApplication } from '../../core/call.ts';
import { isUuid } from '../../core/ids.ts';
import { monthAt } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import { readKeyRecords } from '../../keys/key-store.ts';
import { findPersonNames } from '../../people/person-names.ts';
import type { Project, Projects } from '../../projects/projects.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import { type DeploymentFigures, type NamedFigures, noDeploymentFigures } from '../../usage/analytics/deployment-figures.ts';
import { type Period, type Range, unitFor } from '../../usage/analytics/range.ts';
import { maxPageRows, TooManyCalls } from '../../usage/analytics/row-limit.ts';
import { type CeilingUse, countersOf, toUses } from '../frame/ceilings.ts';
import type { ProviderHealth, ReadHealth } from '../frame/provider-health.ts';
import type { ConsoleContext } from '../frame/route.ts';
import { orTooMany } from '../frame/row-limit.ts';

export interface DeploymentDeps {
  readonly projects: Pick<Projects, 'findBySlug' | 'list' | 'put'>;
  readonly analytics: Pick<Analytics, 'deployment'>;
  readonly queries: Queries;
  readonly readCounters: ReadCounters;
  readonly readHealth: ReadHealth;
  readonly providerNames: () => readonly string[];
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
}

interface DeploymentView extends Pick<ConsoleContext, 'zone' | 'now' | 'signal'> {
  readonly projects: readonly Project[];
  readonly range: Range;
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
/**
 * Turns off the row limit. We can't use a larger number, because `deployment-providers.ts` casts `maxRows + 1` to an
 * `integer`.
 */
const allRows = 2_000_000_000;

/** Returns the figures of the projects, in the same order as `projects`. */
export async function readProjects(
  { analytics }: Pick<DeploymentDeps, 'analytics'>,
  { projects, range, now, signal }: DeploymentView,
): Promise<readonly ProjectFigures[]> {
  const capped = projects.filter(({ settings }) => settings.monthlyCapNanos !== null);
  const month = monthAt(now);
  const read = async (among: readonly Project[], { from, to }: Period) =>
    figuresByName(
      among.length === 0
        ? []
        : await analytics.deployment.figures({ projectIds: idsOf(among), from, to, scope: 'project', limit: among.length, signal }),
    );
  const [current, previous, spent] = await Promise.all([
    read(projects, range),
    read(projects, range.previous),
    read(capped, { from: month.start, to: month.end }),
  ]);
  return projects.map((project) => ({
    project,
    current: current(project.id),
    previous: previous(project.id),
    monthNanos: project.settings.monthlyCapNanos === null ? null : spent(project.id).costNanos,
  }));
}

export interface KeyFigures extends Compared {
  readonly key: KeyRecord;
  readonly project: Project;
  readonly uses: readonly CeilingUse[];
}

export async function readKeys(
  { analytics, queries, readCounters }: DeploymentDeps,
  { projects, range, now, signal }: DeploymentView,
): Promise<readonly KeyFigures[]> {
  const request = { projectIds: idsOf(projects), scope: 'key', limit: maxRows, signal } as const;
  const current = await analytics.deployment.figures({ ...request, from: range.from, to: range.to });
  const names = current.flatMap(({ name }) => name ?? []);
  const [previous, keys] = await Promise.all([
    names.length === 0 ? [] : analytics.deployment.figures({ ...request, ...range.previous, names }),
    readKeyRecords(queries, names),
  ]);
  const before = figuresByName(previous);
  const rows = current.map(async (figures) => {
    const key = keys.find(({ id }) => id === figures.name);
    const project = projects.find(({ id }) => id === key?.projectId);
    if (!key || !project) return [];
    const { cost, calls } = key.ceilings;
    const counters = countersOf({ projectId: project.id, scope: 'key', scopeId: key.quotaKeyId }, { cost, calls }, now);
    const counted = await readCounters(
      project.id,
      counters.map((counter) => counter.key),
    );
    return [{ key, project, current: figures, previous: before(key.id), uses: toUses(counters, counted) }];
  });
  return (await Promise.all(rows)).flat();
}

export interface NamedComparison extends Compared {
  readonly name: string | null;
}

export async function readPeople(
  { analytics, queries }: DeploymentDeps,
  { projects, range, signal }: DeploymentView,
): Promise<readonly NamedComparison[]> {
  const request = { projectIds: idsOf(projects), application: playgroundApplication, limit: maxGroups, signal };
  const people = await readBoth(range, ({ from, to }) => analytics.deployment.playground({ ...request, from, to }));
  const shown = people.slice(0, maxRows);
  const names = await findPersonNames(
    queries,
    shown.flatMap(({ name }) => (name !== null && isUuid(name) ? [name] : [])),
  );
  return shown.map((row) => ({ ...row, name: names.get(row.name ?? '') ?? null }));
}

export async function readModels(
  { analytics }: DeploymentDeps,
  { projects, range, signal }: DeploymentView,
): Promise<readonly NamedComparison[]> {
  const request = { projectIds: idsOf(projects), scope: 'model', limit: maxGroups, signal } as const;
  const models = await readBoth(range, ({ from, to }) => analytics.deployment.figures({ ...request, from, to }));
  return models.slice(0, maxRows);
}

export interface ProviderFigures {
  readonly name: string;
  /** Null if we'd have to read too many call rows to count the attempts. */
  readonly attempts: Compared | null;
  readonly health: ProviderHealth;
}

/**
 * Reads the attempts and the health of each provider. The attempts are null if we'd have to read too many call rows to
 * count them. With `isComplete`, we read the rows no matter how many there are.
 */
export async function readProviders(
  { analytics, readHealth, providerNames }: DeploymentDeps,
  { projects, range, now, signal }: DeploymentView,
  isComplete: boolean,
): Promise<{ readonly rows: readonly ProviderFigures[]; readonly tooMany: TooManyCalls | null }> {
  const request = { projectIds: idsOf(projects), maxRows: isComplete ? allRows : maxPageRows, signal };
  // Catch TooManyCalls separately for each period. Otherwise Promise.all would reject while the other query is still
  // running, and we'd never see the error of that query.
  const read = ({ from, to }: Period) => orTooMany(analytics.deployment.providers({ ...request, from, to }));
  const [current, previous, healthOf] = await Promise.all([read(range), read(range.previous), readHealth(now)]);
  const tooMany = [current, previous].find((result) => result instanceof TooManyCalls) ?? null;
  const rows = current instanceof TooManyCalls || previous instanceof TooManyCalls ? null : compare(current, previous);
  const names = new Set([...providerNames(), ...(rows ?? []).flatMap(({ name }) => name ?? [])]);
  const unused = { current: noDeploymentFigures, previous: noDeploymentFigures };
  return {
    tooMany,
    rows: [...names].map((name) => ({
      name,
      attempts: rows && (rows.find((row) => row.name === name) ?? unused),
      health: healthOf(name),
    })),
  };
}

/**
 * Returns the figures of the calls that the gateway itself makes for memory. All other figures of the overview already
 * include them.
 */
export async function readOwnCalls(
  { analytics }: DeploymentDeps,
  { projects, range: { from, to }, signal }: DeploymentView,
): Promise<DeploymentFigures> {
  const names = [memoryApplication];
  const [own] = await analytics.deployment.figures({ projectIds: idsOf(projects), scope: 'source', names, from, to, limit: 1, signal });
  return own ?? noDeploymentFigures;
}

/** Returns the time unit for the bars of the chart, which is never shorter than an hour. */
export function chartUnit(range: Range) {
  const unit = unitFor(range);
  return unit === 'minute' ? 'hour' : unit;
}

export function readChart({ analytics }: DeploymentDeps, { projects, range, zone, signal }: DeploymentView, shown: readonly string[]) {
  const { from, to } = range;
  return analytics.deployment.costs({ projectIds: idsOf(projects), from, to, zone, unit: chartUnit(range), shown, signal });
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

function idsOf(projects: readonly Project[]): string[] {
  return projects.map(({ id }) => id);
}

async function readBoth(range: Range, read: (period: Period) => Promise<readonly NamedFigures[]>): Promise<NamedComparison[]> {
  const [current, previous] = await Promise.all([read(range), read(range.previous)]);
  return compare(current, previous);
}

/**
 * Pairs the figures of each name with those of the previous period. Names that only occur in the previous period come
 * last.
 */
function compare(current: readonly NamedFigures[], previous: readonly NamedFigures[]): NamedComparison[] {
  const [figuresNow, figuresBefore] = [figuresByName(current), figuresByName(previous)];
  const names = new Set([...current, ...previous].map(({ name }) => name));
  return [...names].map((name) => ({ name, current: figuresNow(name), previous: figuresBefore(name) }));
}

/** Returns a function that finds figures by their name. Missing figures are all 0. */
function figuresByName(rows: readonly NamedFigures[]): (name: string | null) => DeploymentFigures {
  const byName = new Map(rows.map((row) => [row.name, row]));
  return (name) => byName.get(name) ?? noDeploymentFigures;
}
