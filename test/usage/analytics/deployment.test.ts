/** Tests that figures for the whole deployment are the sums over its projects, no matter where they are read from. */
import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { Attempt, SettledCall } from '../../../src/core/call.ts';
import { internalKeyId, noCorrelation } from '../../../src/core/call.ts';
import type { Database } from '../../../src/db/database.ts';
import {
  type NamedFigures,
  readDeploymentCosts,
  readDeploymentFigures,
  readPlaygroundFigures,
} from '../../../src/usage/analytics/deployment-figures.ts';
import { readDeploymentProviders, readRecentAttempts } from '../../../src/usage/analytics/deployment-providers.ts';
import type { Period } from '../../../src/usage/analytics/range.ts';
import { readFigures } from '../../../src/usage/analytics/read-figures.ts';
import { TooManyCalls } from '../../../src/usage/analytics/row-limit.ts';
import { buildAggregates } from '../../../src/usage/hourly-aggregates/build.ts';
import { maintainRollups } from '../../../src/usage/rollups/upkeep.ts';
import { storeCalls } from '../../../src/usage/store-calls.ts';
import { describeDatabases } from '../../db/databases.ts';
import { type CallChanges, noon, settledCall } from '../../journal/calls.ts';
import { isExhaustive } from '../../support/exhaustive.ts';

const hour = 3_600_000;
const day = 24 * hour;
const store = (database: Database, calls: readonly SettledCall[]) => database.transaction((tx) => storeCalls(tx, calls));
const attempt = (changes: Partial<Attempt>): Attempt => ({ ...(settledCall().result.attempts[0] as Attempt), ...changes });

async function maintain(database: Database): Promise<void> {
  while (!(await maintainRollups(database)));
  while (!(await buildAggregates(database, 7)));
}

async function newProject(database: Database) {
  const owner = { projectId: randomUUID(), keyId: randomUUID() };
  await database.query('insert into projects (id, slug, name) values ($1::uuid, $2::text, $2::text)', [owner.projectId, owner.projectId]);
  return {
    ...owner,
    call: ({ metadata = {}, ...changes }: CallChanges = {}) => settledCall({ ...changes, metadata: { ...owner, ...metadata } }),
  };
}

type Project = Awaited<ReturnType<typeof newProject>>;

/** A call of every third hour of four days, at two models and providers, in which every fifth first attempt failed. */
function callsOf({ call }: Project, seed: number): SettledCall[] {
  return Array.from({ length: 32 }, (_, index) => {
    const model = `m/${(index + seed) % 2}`;
    const failed = attempt({ n: 1, provider: 'one', outcome: 'failed', costNanos: 0 });
    const answered = attempt({ n: index % 5 === 0 ? 2 : 1, provider: index % 2 ? 'one' : 'two', costNanos: 10 + seed });
    const costNanos = index % 7 === 0 ? null : 1_000 * seed + index;
    return call({
      metadata: { startedAt: noon - 2 * day + index * 3 * hour + seed * 60_000 },
      result: {
        model,
        costNanos,
        attempts: index % 5 === 0 ? [failed, answered] : [answered],
        outcome: index % 11 === 0 ? 'failed' : 'ok',
      },
    });
  });
}

const periods: readonly (readonly [string, Period])[] = [
  ['whole days', { from: noon - 36 * hour, to: noon + 12 * hour }],
  ['parts of days and hours', { from: noon - 40 * hour - 7 * 60_000, to: noon + 31 * hour + 11 * 60_000 }],
  ['less than an hour', { from: noon - 10 * 60_000, to: noon + 5 * 60_000 }],
];

describeDatabases('figures of all projects together', (database) => {
  const read = (projects: readonly Project[], scope: 'project' | 'key' | 'model' | 'source', period: Period) =>
    readDeploymentFigures(database(), { projectIds: projects.map(({ projectId }) => projectId), scope, limit: 100, ...period });

  const providers = (projects: readonly Project[], period: Period, maxRows = 1_000) =>
    readDeploymentProviders(database(), { projectIds: projects.map(({ projectId }) => projectId), maxRows, ...period });

  /** Reads each project's figures as its own pages do, and adds them up. */
  async function expected(projects: readonly Project[], group: 'model' | 'provider' | null, period: Period): Promise<NamedFigures[]> {
    const sums = new Map<string | null, NamedFigures>();
    for (const { projectId } of projects) {
      const report = await readFigures(database(), { projectId, zone: 'UTC', group, top: 100, ...period });
      const groups = group === null ? [{ name: projectId, figures: report.total }] : report.groups;
      for (const { name, figures } of groups) {
        if (figures.calls === 0) continue;
        const { calls = 0, errors = 0, costNanos = 0n, unpriced = 0 } = sums.get(name) ?? {};
        sums.set(name, {
          name,
          calls: calls + figures.calls,
          errors: errors + figures.errors,
          costNanos: costNanos + figures.costNanos,
          unpriced: unpriced + figures.unpriced,
        });
      }
    }
    return [...sums.values()];
  }

  const sorted = (rows: readonly NamedFigures[]) => rows.toSorted((left, right) => ((left.name ?? '') < (right.name ?? '') ? -1 : 1));

  test('adds up the projects correctly before, during and after rollups are computed', async () => {
    const projects = await Promise.all([1, 2, 3].map(() => newProject(database())));
    const other = await newProject(database());
    await store(database(), [...projects.flatMap((project, index) => callsOf(project, index + 1)), ...callsOf(other, 4)]);
    let checks = 0;
    const check = async () => {
      // The embedded database takes several times as much CPU time, so each check uses only one of the periods.
      const isSampled = database().kind === 'embedded' && !isExhaustive;
      for (const [name, period] of isSampled ? periods.slice(checks, checks + 1) : periods) {
        const actual = {
          project: sorted(await read(projects, 'project', period)),
          model: sorted(await read(projects, 'model', period)),
          provider: sorted(await providers(projects, period)),
        };
        expect([name, actual]).toEqual([
          name,
          {
            project: sorted(await expected(projects, null, period)),
            model: sorted(await expected(projects, 'model', period)),
            provider: sorted(await expected(projects, 'provider', period)),
          },
        ]);
        expect(actual.provider.length).toBeGreaterThan(0);
      }
      checks += 1;
    };
    await check();
    await maintain(database());
    await check();
    // Adds a late call, so the sums for its hour and its day are no longer up to date.
    await store(database(), [projects[0]?.call({ metadata: { startedAt: noon - 30 * hour } }) ?? []].flat());
    await check();
  });

  test('sorts groups by cost, and includes only the requested projects', async () => {
    const [cheap, expensive, idle] = await Promise.all([newProject(database()), newProject(database()), newProject(database())]);
    const own = { metadata: { source: 'gateway-memory' }, result: { costNanos: 1 } };
    await store(database(), [cheap.call({ result: { costNanos: 5 } }), cheap.call(own), expensive.call({ result: { costNanos: 50 } })]);
    const period = { from: noon - hour, to: noon + hour };
    const all = [cheap, expensive, idle];
    expect((await read(all, 'project', period)).map(({ name, costNanos }) => [name, costNanos])).toEqual([
      [expensive.projectId, 50n],
      [cheap.projectId, 6n],
    ]);
    expect((await read(all, 'key', period)).map(({ name }) => name)).toEqual([expensive.keyId, cheap.keyId]);
    const names = ['gateway-memory'];
    const projectIds = all.map(({ projectId }) => projectId);
    expect(await readDeploymentFigures(database(), { projectIds, scope: 'source', names, limit: 1, ...period })).toMatchObject([
      { name: 'gateway-memory', calls: 1, costNanos: 1n },
    ]);
    const shown = [expensive.projectId];
    const units = await readDeploymentCosts(database(), { projectIds, ...period, zone: 'UTC', unit: 'hour', shown });
    expect(units.map(({ start, costs }) => [start - noon, costs])).toEqual([
      [-hour, [0n, 0n]],
      [0, [50n, 6n]],
    ]);
    expect(await read([idle], 'project', period)).toEqual([]);
  });

  test('throws an error instead of reading the attempts of too many calls', async () => {
    const project = await newProject(database());
    await store(database(), callsOf(project, 1));
    const period = { from: noon - 2 * day, to: noon + 2 * day };
    await expect(providers([project], period, 31)).rejects.toThrow(TooManyCalls);
    expect(await providers([project], period, 32)).toHaveLength(2);
  });

  test('counts attempts for each provider, and playground calls for each person', async () => {
    const project = await newProject(database());
    const at = noon + 400 * day;
    const personId = randomUUID();
    const correlation = { ...noCorrelation, triggerKind: 'playground', triggerDetail: personId };
    await store(database(), [
      project.call({
        metadata: { startedAt: at },
        result: { attempts: [attempt({ provider: 'last', outcome: 'failed' }), attempt({ n: 2, provider: 'next' })] },
      }),
      project.call({
        metadata: { startedAt: at, source: 'gateway-playground', correlation, keyId: internalKeyId },
        result: { costNanos: 9, attempts: [] },
      }),
      project.call({ metadata: { startedAt: at, source: 'gateway-playground', correlation }, result: { costNanos: 5, attempts: [] } }),
      project.call({ metadata: { startedAt: at, source: 'elsewhere', correlation }, result: { costNanos: 7, attempts: [] } }),
    ]);
    expect(await readRecentAttempts(database(), at)).toEqual([
      { provider: 'last', attempts: 1, failed: 1 },
      { provider: 'next', attempts: 1, failed: 0 },
    ]);
    const request = { projectIds: [project.projectId], application: 'gateway-playground', limit: 5, from: at, to: at + hour };
    expect(await readPlaygroundFigures(database(), request)).toEqual([{ name: personId, calls: 1, errors: 0, costNanos: 9n, unpriced: 0 }]);
  });
});
