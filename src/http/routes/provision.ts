/**
 * `/provision`: projects, keys, applications and call rows, with the admin token. Used by the command line.
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
import type { Batches } from '../../memory/learning/batches.ts';
import type { MemorySettingsStore } from '../../memory/records/settings.ts';
import { type Project, type Projects, toProjectJson } from '../../projects/projects.ts';
import { readJson, requireToken } from '../admin.ts';
import { mapDatabaseErrors } from '../database-errors.ts';
import { sendJson } from '../error-handler.ts';
import { createApplicationHandlers } from './provision-applications.ts';
import { createBatchHandlers } from './provision-batches.ts';
import { createErasureHandlers, type ErasureHandlerDeps } from './provision-erasures.ts';
import { createLeaseHandlers, type LeaseHandlerDeps } from './provision-leases.ts';
import { createRulesHandlers } from './provision-rules.ts';

export interface CallsFilter {
  readonly limit: number;
  /** Only rows older than the one with this id. */
  readonly before: string | null;
  readonly taskId: string | null;
  readonly source: string | null;
}

export interface ProvisionRouteDeps {
  readonly projects: Projects;
  readonly keyring: Keyring;
  readonly memorySettings: MemorySettingsStore;
  readonly batches: Batches;
  /** Rows of the `CallList` schema, newest first. */
  readonly listCalls: (projectId: string, filter: CallsFilter) => Promise<readonly unknown[]>;
  readonly leases: LeaseHandlerDeps;
  readonly erasures: ErasureHandlerDeps;
  readonly adminToken: string;
}

const maxBodyBytes = 1024 * 1024;

export function createProvisionRoutes(deps: ProvisionRouteDeps): Router {
  const { projects, keyring, memorySettings, batches, listCalls, leases, erasures, adminToken } = deps;
  const router = express.Router();

  const findProject = async (request: Request): Promise<Project> => {
    const project = await projects.findBySlug(param(request, 'project'));
    if (!project) throw gatewayError('not_found', { message: 'no such project' });
    return project;
  };

  /** Maps the database errors of a handler to API errors. */
  const route = (handle: (request: Request, response: Response) => Promise<void>) => (request: Request, response: Response) =>
    mapDatabaseErrors(() => handle(request, response));

  router.use(requireToken(adminToken), readJson(maxBodyBytes));

  router.get(
    '/teams',
    route(async (_request, response) => sendJson(response, 200, toListJson((await projects.list()).map(toProjectJson)))),
  );
  router.get(
    '/teams/:project',
    route(async (request, response) => sendJson(response, 200, toProjectJson(await findProject(request)))),
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
    route(async (request, response) => {
      const keys = await keyring.list((await findProject(request)).id);
      sendJson(response, 200, toListJson(keys.map(toKeyJson)));
    }),
  );
  router.post(
    '/teams/:project/keys',
    route(async (request, response) => {
      const { id } = await findProject(request);
      sendJson(response, 201, toIssuedJson(await keyring.issue(id, request.body)));
    }),
  );
  router.delete(
    '/teams/:project/keys/:prefix',
    route(async (request, response) => {
      const { id } = await findProject(request);
      sendJson(response, 200, toKeyJson(await keyring.revoke(id, param(request, 'prefix'))));
    }),
  );
  router.post(
    '/teams/:project/keys/:prefix/rotate',
    route(async (request, response) => {
      const { id } = await findProject(request);
      sendJson(response, 201, toIssuedJson(await keyring.rotate(id, param(request, 'prefix'), request.body)));
    }),
  );
  const applications = createApplicationHandlers({ applications: projects.applications, findProject });
  router.get('/teams/:project/applications', route(applications.list));
  router.get('/teams/:project/applications/:source', route(applications.get));
  router.put('/teams/:project/applications/:source', route(applications.put));
  const rules = createRulesHandlers({ contentRules: projects.contentRules, findProject });
  router.get('/teams/:project/rules', route(rules.get));
  router.put('/teams/:project/rules', route(rules.put));
  router.get(
    '/teams/:project/memory',
    route(async (request, response) => {
      const { id } = await findProject(request);
      sendJson(response, 200, await memorySettings.read(id));
    }),
  );
  router.put(
    '/teams/:project/memory',
    route(async (request, response) => {
      const { id } = await findProject(request);
      sendJson(response, 200, await memorySettings.update(id, request.body));
    }),
  );
  const learning = createBatchHandlers({ batches, findProject });
  router.get('/teams/:project/batches', route(learning.list));
  router.get('/teams/:project/batches/:id', route(learning.show));
  router.post('/teams/:project/batches/:id/replay', route(learning.replay));
  router.get(
    '/teams/:project/calls',
    route(async (request, response) => {
      const { id } = await findProject(request);
      sendJson(response, 200, toListJson(await listCalls(id, parseCallsFilter(request.query))));
    }),
  );
  const erasureHandlers = createErasureHandlers(erasures, findProject);
  router.get('/teams/:project/erasures', route(erasureHandlers.list));
  router.get('/teams/:project/erasures/:id', route(erasureHandlers.get));
  const leaseHandlers = createLeaseHandlers(leases);
  router.get('/leases', route(leaseHandlers.list));
  router.delete('/leases/:process', route(leaseHandlers.release));
  return router;
}

const callsQuery = z.object({
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
  before: z.string().refine(isUuid, 'must be the id of a call').optional(),
  task_id: z.string().min(1).max(256).optional(),
  source: z.string().min(1).max(256).optional(),
});

function parseCallsFilter(query: unknown): CallsFilter {
  const { limit, before = null, task_id: taskId = null, source = null } = parseOrBadRequest(callsQuery, query);
  return { limit, before, taskId, source };
}

function toIssuedJson({ secret, record }: IssuedKey): Record<string, unknown> {
  const { revoked_at: _, ...json } = toKeyJson(record);
  return { key: secret, ...json };
}

function toListJson(data: readonly unknown[]): Record<string, unknown> {
  return { object: 'list', data };
}

/** Express 5 types wildcard parameters as lists; these routes have none. */
function param(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === 'string' ? value : '';
}
