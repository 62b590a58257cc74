/**
 * `/provision`: projects and what belongs to them, call rows and leases, with the admin token. Used by the command line.
 *
 * The token is checked first, so an unauthenticated caller learns neither which projects exist nor what a body must contain.
 */
import type { Request, Response, Router } from 'express';
import express from 'express';
import { z } from 'zod';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { toKeyJson } from '../../keys/key-record.ts';
import type { IssuedKey, Keyring } from '../../keys/keyring.ts';
import type { ErasureReport } from '../../memory/erasure/erasure-report.ts';
import { type Batches, batchStates } from '../../memory/learning/batches.ts';
import type { MemorySettingsStore } from '../../memory/records/settings.ts';
import { toApplicationJson } from '../../projects/applications.ts';
import { type Project, type Projects, toProjectJson } from '../../projects/projects.ts';
import type { Reprice } from '../../usage/reprice.ts';
import { parseRepriceInput } from '../../usage/reprice-input.ts';
import { readJson, requireToken } from '../admin.ts';
import { mapDatabaseErrors } from '../database-errors.ts';
import { sendJson } from '../error-handler.ts';
import { toBatchJson, toErasureReportJson } from './memory-json.ts';
import { provisionRequests } from './provision/request-schemas.ts';
import { createLeaseHandlers, type LeaseHandlerDeps } from './provision-leases.ts';

export interface CallsFilter {
  readonly limit: number;
  /** Only rows older than the one with this id. */
  readonly before: string | null;
  readonly taskId: string | null;
  readonly source: string | null;
}

/** Erasures with the counts of all processes. */
export interface ErasureReports {
  /** Newest first. */
  readonly listErasures: (projectId: string, limit: number) => Promise<readonly ErasureReport[]>;
  /** Null when no erasure has that id. */
  readonly findErasure: (projectId: string, id: string) => Promise<ErasureReport | null>;
}

export interface ProvisionRouteDeps {
  readonly projects: Projects;
  readonly keyring: Keyring;
  readonly memorySettings: MemorySettingsStore;
  readonly batches: Batches;
  /** Rows of the `CallList` schema, newest first. */
  readonly listCalls: (projectId: string, filter: CallsFilter) => Promise<readonly unknown[]>;
  readonly leases: LeaseHandlerDeps;
  readonly erasures: ErasureReports;
  readonly reprice: Reprice;
  readonly adminToken: string;
}

const maxBodyBytes = 1024 * 1024;

export function createProvisionRoutes(deps: ProvisionRouteDeps): Router {
  const { projects, keyring, memorySettings, batches, listCalls, erasures, reprice } = deps;
  const { applications, contentRules } = projects;
  const leases = createLeaseHandlers(deps.leases);
  const router = express.Router();

  const findProject = async (slug: string): Promise<Project> => {
    const project = await projects.findBySlug(slug);
    if (!project) throw gatewayError('not_found', { message: 'no such project' });
    return project;
  };

  /** Maps the database errors of a handler to API errors. */
  const route = (handle: (request: Request, response: Response) => Promise<void>) => (request: Request, response: Response) =>
    mapDatabaseErrors(() => handle(request, response));

  /** Sends the JSON that `respond` returns for the project in the URL. */
  const ofProject = (respond: (project: Project, request: Request) => Promise<unknown>, status = 200) =>
    route(async (request, response) => {
      sendJson(response, status, await respond(await findProject(param(request, 'project')), request));
    });

  router.use(requireToken(deps.adminToken), readJson(maxBodyBytes));

  router.get(
    '/teams',
    route(async (_request, response) => sendJson(response, 200, toListJson(await projects.list(), toProjectJson))),
  );
  router.get(
    '/teams/:project',
    ofProject(async (project) => toProjectJson(project)),
  );
  router.put(
    '/teams/:project',
    route(async (request, response) => {
      const { project, created } = await projects.put(param(request, 'project'), request.body);
      sendJson(response, created ? 201 : 200, toProjectJson(project));
    }),
  );
  router.get(
    '/teams/:project/keys',
    ofProject(async ({ id }) => toListJson(await keyring.list(id), toKeyJson)),
  );
  router.post(
    '/teams/:project/keys',
    ofProject(async ({ id }, { body }) => toIssuedJson(await keyring.issue(id, body)), 201),
  );
  router.delete(
    '/teams/:project/keys/:prefix',
    ofProject(async ({ id }, request) => toKeyJson(await keyring.revoke(id, param(request, 'prefix')))),
  );
  router.post(
    '/teams/:project/keys/:prefix/rotate',
    ofProject(async ({ id }, request) => toIssuedJson(await keyring.rotate(id, param(request, 'prefix'), request.body)), 201),
  );
  router.get(
    '/teams/:project/applications',
    ofProject(async ({ id }) => toListJson(await applications.list(id), toApplicationJson)),
  );
  router.get(
    '/teams/:project/applications/:source',
    ofProject(async ({ id }, request) => toApplicationJson(await applications.find(id, param(request, 'source')))),
  );
  // Always 200: applications exist without being provisioned, so nothing is created.
  router.put(
    '/teams/:project/applications/:source',
    ofProject(async ({ id }, request) => toApplicationJson(await applications.put(id, param(request, 'source'), request.body))),
  );
  router.get(
    '/teams/:project/rules',
    ofProject(async ({ id }) => ({ rules: await contentRules.find(id) })),
  );
  router.put(
    '/teams/:project/rules',
    ofProject(async ({ id }, { body }) => ({ rules: await contentRules.put(id, body) })),
  );
  router.get(
    '/teams/:project/memory',
    ofProject(({ id }) => memorySettings.read(id)),
  );
  router.put(
    '/teams/:project/memory',
    ofProject(({ id }, { body }) => memorySettings.update(id, body)),
  );
  router.get(
    '/teams/:project/batches',
    ofProject(async ({ id }, { query }) => {
      const { state = null } = parseOrBadRequest(batchesQuery, query);
      return toListJson(await batches.list(id, state), toBatchJson);
    }),
  );
  router.get(
    '/teams/:project/batches/:id',
    ofProject(async ({ id }, request) => toBatchJson(await batches.show(id, parseBatchId(request)))),
  );
  router.post(
    '/teams/:project/batches/:id/replay',
    ofProject(async ({ id }, request) => toBatchJson(await batches.replay(id, parseBatchId(request))), 202),
  );
  router.get(
    '/batches',
    route(async (request, response) => {
      const { project, state = null } = parseOrBadRequest(allBatchesQuery, request.query);
      const projectId = project === undefined ? null : (await findProject(project)).id;
      sendJson(response, 200, toListJson(await batches.list(projectId, state), toBatchJson));
    }),
  );
  router.post(
    '/batches/replay',
    route(async (request, response) => {
      const { project, state } = parseOrBadRequest(provisionRequests.BatchReplayBody, request.body);
      const replayed = await batches.replayAll((await findProject(project)).id, state);
      sendJson(response, 202, { object: 'memory.batch_replay', project, state, batches: replayed });
    }),
  );
  router.get(
    '/batches/:id',
    route(async (request, response) => sendJson(response, 200, toBatchJson(await batches.show(null, parseBatchId(request))))),
  );
  router.post(
    '/batches/:id/replay',
    route(async (request, response) => sendJson(response, 202, toBatchJson(await batches.replay(null, parseBatchId(request))))),
  );
  router.get(
    '/teams/:project/calls',
    ofProject(async ({ id }, { query }) => ({ object: 'list', data: await listCalls(id, parseCallsFilter(query)) })),
  );
  router.get(
    '/teams/:project/erasures',
    ofProject(async ({ id }, { query }) => {
      const { limit } = parseOrBadRequest(erasuresQuery, query);
      return toListJson(await erasures.listErasures(id, limit), toErasureReportJson);
    }),
  );
  router.get(
    '/teams/:project/erasures/:id',
    ofProject(async (project, request) => {
      const id = param(request, 'id');
      if (!isUuid(id)) throw gatewayError('bad_request', { message: 'id: must be a UUID' });
      const erasure = await erasures.findErasure(project.id, id);
      if (erasure === null) throw gatewayError('not_found', { message: 'no such erasure' });
      return toErasureReportJson(erasure);
    }),
  );
  router.post(
    '/usage/reprice',
    route(async (request, response) => {
      const { project, ...window } = parseRepriceInput(request.body);
      const projectId = project === null ? null : (await findProject(project)).id;
      sendJson(response, 200, { object: 'usage_reprice', project, ...(await reprice({ ...window, projectId })) });
    }),
  );
  router.get('/leases', route(leases.list));
  router.delete('/leases/:process', route(leases.release));
  return router;
}

const limit = z.coerce.number().int().min(1).max(1_000).default(100);
const batchesQuery = z.object({ state: z.enum(batchStates).optional() });
const allBatchesQuery = batchesQuery.extend({ project: z.string().optional() });
const erasuresQuery = z.object({ limit });
const callsQuery = z.object({
  limit,
  before: z.string().refine(isUuid, 'must be the id of a call').optional(),
  task_id: z.string().min(1).max(256).optional(),
  source: z.string().min(1).max(256).optional(),
});

function parseCallsFilter(query: unknown): CallsFilter {
  const { limit, before = null, task_id: taskId = null, source = null } = parseOrBadRequest(callsQuery, query);
  return { limit, before, taskId, source };
}

function parseBatchId(request: Request): string {
  const id = param(request, 'id');
  if (!isUuid(id)) throw gatewayError('not_found', { message: 'no such batch' });
  return id.toLowerCase();
}

function toIssuedJson({ secret, record }: IssuedKey): Record<string, unknown> {
  const { revoked_at: _, ...json } = toKeyJson(record);
  return { key: secret, ...json };
}

function toListJson<Row>(rows: readonly Row[], toJson: (row: Row) => unknown): Record<string, unknown> {
  return { object: 'list', data: rows.map((row) => toJson(row)) };
}

/** Express 5 types wildcard parameters as lists; these routes have none. */
function param(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === 'string' ? value : '';
}
