/** Routes for what was recorded in a project (calls, usage and erasures), and for correcting recorded costs. */
import type { Router } from 'express';
import { z } from 'zod';
import { gatewayError } from '../../../core/errors.ts';
import { isUuid } from '../../../core/ids.ts';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import { isSubject } from '../../../core/subject.ts';
import type { ErasureReport } from '../../../memory/erasure/erasure-report.ts';
import type { Project } from '../../../projects/projects.ts';
import type { Reprice } from '../../../usage/reprice.ts';
import { parseRepriceInput } from '../../../usage/reprice-input.ts';
import { toErasureReportJson } from '../memory-json.ts';
import { param, type Responders, toListJson } from './responders.ts';

export interface CallsFilter {
  readonly limit: number;
  /** Only return rows older than the one with this id. */
  readonly before: string | null;
  readonly taskId: string | null;
  readonly source: string | null;
  /** Only return calls of which the vendor gave a request this id. */
  readonly requestId: string | null;
  /** Only return calls about this end user. */
  readonly subject: string | null;
  /** Leaves out the calls that the gateway made for project memory. */
  readonly hideOwn: boolean;
  /** Only return calls in which an attempt failed. */
  readonly failed: boolean;
}

/** Erasures with their counts across all processes. */
export interface ErasureReports {
  /** Returns the newest erasure first. */
  readonly listErasures: (projectId: string, limit: number) => Promise<readonly ErasureReport[]>;
  /** Resolves to null if there is no erasure with that id. */
  readonly findErasure: (projectId: string, id: string) => Promise<ErasureReport | null>;
}

export interface ReportRouteDeps {
  /** Returns rows of the `CallList` schema, newest first. If `projectId` is null, the list covers all projects. */
  readonly listCalls: (projectId: string | null, filter: CallsFilter) => Promise<readonly unknown[]>;
  /** Resolves to a row of the `Call` schema, or to null if the project has no such call. */
  readonly findCall: (projectId: string, id: string) => Promise<unknown>;
  /** Returns the usage in the current calendar month, in the `Usage` schema. */
  readonly getUsage: (project: Project) => Promise<unknown>;
  /** Returns the usage of all projects in the current calendar month, in the `DeploymentUsage` schema. */
  readonly getDeploymentUsage: () => Promise<unknown>;
  readonly erasures: ErasureReports;
  readonly reprice: Reprice;
}

export function addReportRoutes(router: Router, responders: Responders, deps: ReportRouteDeps): void {
  const { findProject, read, readProject, change } = responders;
  const { listCalls, findCall, getUsage, getDeploymentUsage, erasures, reprice } = deps;
  router.get(
    '/teams/:project/calls',
    readProject(async ({ id }, { query }) => ({ object: 'list', data: await listCalls(id, parseCallsFilter(query)) })),
  );
  router.get(
    '/calls',
    read(async ({ query }) => ({ object: 'list', data: await listCalls(null, parseCallsFilter(query)) })),
  );
  router.get(
    '/teams/:project/calls/:id',
    readProject(async (project, request) => {
      const call = await findCall(project.id, param(request, 'id'));
      if (call === null) throw gatewayError('not_found', { message: 'no such call' });
      return call;
    }),
  );
  router.get(
    '/teams/:project/usage',
    readProject((project) => getUsage(project)),
  );
  router.get(
    '/usage',
    read(() => getDeploymentUsage()),
  );
  router.get(
    '/teams/:project/erasures',
    readProject(async ({ id }, { query }) => {
      const { limit } = parseOrBadRequest(erasuresQuery, query);
      return toListJson(await erasures.listErasures(id, limit), toErasureReportJson);
    }),
  );
  router.get(
    '/teams/:project/erasures/:id',
    readProject(async (project, request) => {
      const erasure = await erasures.findErasure(project.id, param(request, 'id'));
      if (erasure === null) throw gatewayError('not_found', { message: 'no such erasure' });
      return toErasureReportJson(erasure);
    }),
  );
  router.post(
    '/usage/reprice',
    change('usage.reprice', async (request, change) => {
      const { project, ...window } = parseRepriceInput(request.body);
      const projectId = project === null ? null : (await findProject(project)).id;
      const receipt = await reprice({ ...window, projectId });
      change.note({ ...receipt });
      return { object: 'usage_reprice', project, ...receipt };
    }),
  );
}

const limit = z.coerce.number().int().min(1).max(1_000).default(100);
const erasuresQuery = z.object({ limit });
const callsQuery = z.object({
  limit,
  before: z.string().refine(isUuid, 'must be the id of a call').optional(),
  task_id: z.string().min(1).max(256).optional(),
  source: z.string().min(1).max(256).optional(),
  request_id: z.string().min(1).max(128).optional(),
  subject: z.string().refine(isSubject, 'must be the id of an end user').optional(),
  hide_own: z.stringbool({ truthy: ['true'], falsy: ['false'] }).default(false),
  failed: z.stringbool({ truthy: ['true'], falsy: ['false'] }).default(false),
});

function parseCallsFilter(query: unknown): CallsFilter {
  const { limit, before = null, task_id: taskId = null, source = null, ...others } = parseOrBadRequest(callsQuery, query);
  const { request_id: requestId = null, subject = null, hide_own: hideOwn, failed } = others;
  return { limit, before, taskId, source, requestId, subject, hideOwn, failed };
}
