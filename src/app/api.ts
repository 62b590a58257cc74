/** Connects the HTTP routes to the modules that `app.ts` has created. It contains no logic of its own. */

import type { Server } from 'node:http';
import type { createUsageReader } from '../ceilings/counter-usage.ts';
import { getHost } from '../config/starter-models.ts';
import type { Caller } from '../core/call.ts';
import type { ErrorCode } from '../core/errors.ts';
import { createLoadMeter } from '../core/event-loop-load.ts';
import type { TurnBatch } from '../core/turn-batch.ts';
import { readVersion } from '../core/version.ts';
import type { BodyMemory } from '../http/body-memory.ts';
import { createBodyShares } from '../http/body-shares.ts';
import { mapDatabaseErrors } from '../http/database-errors.ts';
import { createErrorPace } from '../http/error-pace.ts';
import { createRequestOwner } from '../http/request-owner.ts';
import type { HealthDeps } from '../http/routes/health.ts';
import type { ReadMetrics } from '../http/routes/metrics.ts';
import { createProvisionRoutes } from '../http/routes/provision.ts';
import { createHttpServer } from '../http/server.ts';
import type { KnownPrompts } from '../memory/conversations/known-prompts.ts';
import type { CountTokens } from '../pipeline/call/count-tokens.ts';
import { limitsFor } from '../pipeline/call/project-context.ts';
import type { Project } from '../projects/projects.ts';
import { toPrice } from '../routing/catalog.ts';
import { findUnusableNames } from '../routing/key-models.ts';
import { listModels } from '../routing/list-models.ts';
import { breakerKeys } from '../routing/pools.ts';
import { findMissingTags } from '../routing/rules.ts';
import { findCall } from '../usage/call-rows.ts';
import { countRefused, findRefused, listRefused } from '../usage/refusals/read-refusals.ts';
import type { Reprice } from '../usage/reprice.ts';
import { buildStatusReport, type StatusReport } from '../usage/status.ts';
import type { AppBase } from './base.ts';
import type { ConsoleDeps } from './console-deps.ts';
import { getDeploymentUsage } from './deployment-usage.ts';
import { readEndUser } from './end-users.ts';
import { createMcp } from './mcp.ts';
import type { MediaHandlers } from './media.ts';
import { createMemoryRouteDeps, createSubjectEraser } from './memory.ts';
import { recordRefused } from './record-refused.ts';
import { createWorkReader } from './waiting-work.ts';

/**
 * The dependencies of `createApi`. The API needs nearly everything that the console needs, except for what `createApi`
 * creates itself.
 */
interface ApiDeps extends AppBase, Omit<ConsoleDeps, 'eraseSubject' | 'readStored' | 'getStatus'> {
  readonly reprice: Reprice;
  readonly readUsage: ReturnType<typeof createUsageReader>;
  readonly knownPrompts: KnownPrompts;
  readonly countTokens: CountTokens;
  readonly media: MediaHandlers;
  readonly health: HealthDeps;
  readonly bodyMemory: BodyMemory;
  readonly countError: (code: ErrorCode) => void;
  readonly readMetrics: ReadMetrics;
  readonly turnBatch: TurnBatch;
}

export interface Api {
  readonly server: Server;
  /** Ends the event streams of MCP clients, because the server can't close while one of them is still connected. */
  closeStreams(): Promise<void>;
}

export function createApi(deps: ApiDeps): Api {
  const { snapshot, activeModels, keyring, projects, readBreakers, reports, readUsage, callRecording, memory, learning, erasures } = deps;
  const { database, handleCall, knownPrompts, countTokens, reprice, media, health, bodyMemory, people, audit, clock, logger } = deps;
  const { countError, readMetrics, turnBatch } = deps;
  const adminTokens = (): readonly string[] => snapshot().config.adminTokens;
  const startedAt = clock.now();
  const findCaller = keyring.find;

  /**
   * Runs a query after this process has stored its calls (or those of `projectId`), so that clients see the calls that
   * they've just made.
   */
  const readStored = <Result>(query: () => Promise<Result>, projectId?: string): Promise<Result> =>
    mapDatabaseErrors(async () => {
      const stored = callRecording.drain.waitUntilDrained(projectId === undefined ? {} : { projectId });
      await Promise.all([stored, callRecording.refusals.flush()]);
      return query();
    });

  /** Like `readStored`, but for calls that were refused. These aren't in the journal. */
  const readRefused = <Result>(query: () => Promise<Result>): Promise<Result> =>
    mapDatabaseErrors(() => callRecording.refusals.flush().then(query));

  const eraseSubject = createSubjectEraser({ memory, applyErasure: erasures.listener.apply, readStored });
  const getUsage = ({ id: projectId, settings: { monthlyCapNanos } }: Project) =>
    readStored(() => reports.getUsage({ projectId, monthlyCapNanos }), projectId);

  const getStatus = async (caller: Caller): Promise<StatusReport> => {
    const [project, ceilings] = await Promise.all([projects.get(caller.projectId), keyring.getCeilings(caller)]);
    const { catalog, config } = snapshot();
    const { settings } = project;
    const providers = [...catalog.served.keys()]
      .filter((name) => settings.providers?.includes(name) ?? true)
      .filter((name) => findMissingTags({ catalog, project: settings, caller }, name).length === 0)
      .flatMap((name) => breakerKeys(catalog, name));
    const limits = limitsFor({ caller, source: project.slug }, settings, ceilings);
    return readStored(async () => {
      const [countedUsage, breakers] = await Promise.all([readUsage(limits, clock.now()), readBreakers(project.id, providers)]);
      const { demo } = config;
      return buildStatusReport({ reports, project, caller, ceilings, breakers, clock, demo, countedUsage });
    }, project.id);
  };

  const bodyShares = createBodyShares(bodyMemory);
  const mcp = createMcp({
    ...{ database, people, audit, memory, learning, readStored, bodyShares, clock, logger },
    resource: () => {
      const { publicUrl, oidc } = snapshot().config;
      return { publicUrl, issuer: oidc?.issuer ?? null };
    },
    getUsage: async (projectId) => getUsage(await projects.get(projectId)),
  });

  const recordRefusal = callRecording.refusals.record;
  const ownerOf = createRequestOwner(keyring.findCached);
  const errorReports = { logger, countError, errorPace: createErrorPace({ ownerOf, readLoad: createLoadMeter() }) };
  const callDeps = { findCaller, findProject: projects.get, bodyMemory, recordRefusal, clock, ...errorReports };
  const server = createHttpServer({
    ...errorReports,
    ...{ readMetrics, adminTokens, turnBatch },
    traceSampling: snapshot().config.tracing?.sampler ?? null,
    mcp,
    ownerOf,
    text: { ...callDeps, memorySettings: memory.settings.getInTime, handleCall, knownPrompts },
    countTokens: { ...callDeps, countTokens, knownPrompts },
    media: { ...callDeps, ...media.routes },
    video: { ...callDeps, ...media.videoRoutes },
    status: {
      findCaller,
      getUsage: async ({ projectId }) => getUsage(await projects.get(projectId)),
      getStatus,
    },
    models: {
      findCaller,
      findProject: projects.get,
      listModels: (request) => {
        const { catalog, config } = snapshot();
        return listModels({ ...request, catalog, catalogFill: config.catalogFill, startedAt });
      },
      ...errorReports,
    },
    memory: createMemoryRouteDeps({ findCaller, bodyMemory, memory, remember: learning.remember, eraseSubject, readStored }),
    health,
    corsOrigins: () => snapshot().config.corsOrigins,
    provision: createProvisionRoutes({
      projects,
      keyring,
      memorySettings: memory.settings,
      routing: () => ({ catalog: snapshot().catalog, catalogFill: snapshot().config.catalogFill }),
      findUnusableModels: ({ settings }, models, accepted) =>
        findUnusableNames({ catalog: snapshot().catalog, project: settings }, models, accepted),
      exportMemory: memory.exportMemory,
      importMemory: memory.importMemory,
      batches: learning.batches,
      leases: callRecording.leases,
      listQuarantined: callRecording.listQuarantined,
      catalog: {
        listModels: () => Object.values(activeModels.models()).map((row) => ({ ...row, price: toPrice(row) })),
        listProviders: () =>
          Object.values(snapshot().config.providers).map(({ name, vendor, baseUrl, dialect, serves }) => ({
            name,
            host: getHost(baseUrl),
            vendor,
            dialect,
            serves,
          })),
        importModels: activeModels.import,
      },
      erasures: erasures.routes,
      ...{ health, version: readVersion(), readWork: createWorkReader(deps) },
      getUsage,
      getDeploymentUsage: () => readStored(() => getDeploymentUsage({ database, projects, clock })),
      // Wait until all active prices are in the price history, because repricing only uses prices from there.
      reprice: (request) => readStored(() => activeModels.synced().then(() => reprice(request)), request.projectId ?? undefined),
      findCall: (projectId, id) => readStored(() => findCall(database, projectId, id), projectId),
      refusedCalls: {
        list: (request) => readRefused(() => listRefused(database, request)),
        find: (projectId, id) => readRefused(() => findRefused(database, projectId, id)),
        count: (selection) => countRefused(database, selection),
      },
      readEndUser: (projectId, subject) => readStored(() => readEndUser(database, projectId, subject), projectId),
      clock,
      listCalls: (projectId, filter) => readStored(() => reports.listCalls(projectId, filter), projectId ?? undefined),
      audit,
      logger,
      people,
      publicUrl: () => snapshot().config.publicUrl,
      adminTokens,
    }),
    console: async () => {
      const { createConsole } = await import('./console.ts');
      return createConsole({
        ...{ ...deps, handleCall: recordRefused(recordRefusal, handleCall) },
        ...{ eraseSubject, readStored, getStatus, bodyShares },
      });
    },
  });
  return { server, closeStreams: mcp.close };
}
