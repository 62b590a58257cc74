/** Reads the usage of all projects in the current calendar month (UTC), for `GET /provision/usage`. */
import { toUsd } from '../core/cost.ts';
import { formatTime, monthAt } from '../core/time.ts';
import { readKeyRecords } from '../keys/key-store.ts';
import type { Projects } from '../projects/projects.ts';
import { type DeploymentFigures, noDeploymentFigures, readDeploymentFigures } from '../usage/analytics/deployment-figures.ts';
import type { AppBase } from './base.ts';

interface DeploymentUsageDeps extends Pick<AppBase, 'database' | 'clock'> {
  readonly projects: Pick<Projects, 'list'>;
}

/** Limits both the keys and the models in the report, starting with the most expensive ones. */
const maxGroups = 1_000;

export async function getDeploymentUsage({ database, projects, clock }: DeploymentUsageDeps): Promise<Record<string, unknown>> {
  const { name: month, start, end } = monthAt(clock.now());
  const all = await projects.list();
  const request = { projectIds: all.map(({ id }) => id), from: start, to: end, limit: maxGroups };
  const [byProject, byKey, byModel] = await Promise.all([
    readDeploymentFigures(database, { ...request, scope: 'project', limit: Math.max(1, all.length) }),
    readDeploymentFigures(database, { ...request, scope: 'key' }),
    readDeploymentFigures(database, { ...request, scope: 'model' }),
  ]);
  const keyIds = byKey.flatMap(({ name }) => name ?? []);
  const keys = new Map((await readKeyRecords(database, keyIds)).map((key) => [key.id, key]));
  const slugs = new Map(all.map(({ id, slug }) => [id, slug]));
  const toSums = ({ costNanos, calls, errors, unpriced }: DeploymentFigures) => ({
    cost: toUsd(Number(costNanos)),
    calls,
    errors,
    calls_of_unknown_cost: unpriced,
  });
  const total = byProject.reduce(
    (sum, { costNanos, calls, errors, unpriced }) => ({
      costNanos: sum.costNanos + costNanos,
      calls: sum.calls + calls,
      errors: sum.errors + errors,
      unpriced: sum.unpriced + unpriced,
    }),
    noDeploymentFigures,
  );
  const sums = new Map(byProject.map((figures) => [figures.name, figures]));
  return {
    month,
    period: { start: formatTime(start), end: formatTime(end) },
    currency: 'USD',
    spend: toUsd(Number(total.costNanos)),
    calls: total.calls,
    errors: total.errors,
    by_project: all
      .map(({ id, slug, name, settings: { monthlyCapNanos } }) => ({
        ...{ project: slug, name, ...toSums(sums.get(id) ?? noDeploymentFigures) },
        monthly_cap: monthlyCapNanos === null ? null : toUsd(monthlyCapNanos),
      }))
      .sort((left, right) => right.cost - left.cost),
    by_key: byKey.flatMap((figures) => {
      const key = keys.get(figures.name ?? '');
      return key ? [{ project: slugs.get(key.projectId) ?? '', prefix: key.prefix, name: key.name, ...toSums(figures) }] : [];
    }),
    by_model: byModel.map((figures) => ({ model: figures.name, ...toSums(figures) })),
  };
}
