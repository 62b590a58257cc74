/** Routes for the calls, usage and erasures of a project, and for correcting the costs that we recorded. */
import type { Request } from 'express';
import { z } from 'zod';
import { gatewayError } from '../../../core/errors.ts';
import { isUuid } from '../../../core/ids.ts';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import { isSubject } from '../../../core/subject.ts';
import type { ErasureReport } from '../../../memory/erasure/erasure-report.ts';
import type { Project } from '../../../projects/projects.ts';
import type { ListOptions } from '../../../usage/call-rows.ts';
import type { Reprice } from '../../../usage/reprice.ts';
import { parseRepriceInput } from '../../../usage/reprice-input.ts';
import { flag, pageLimit } from '../../query-schemas.ts';
import { toErasureReportJson } from '../../shapes/memory-json.ts';
import { type Change, param, projectInBody, type Responders, toListJson } from './responders.ts';

/** Reports about erasures. The counts are totals of all processes. */
export interface ErasureReports {
  /** Newest first. */
  readonly listErasures: (projectId: string, limit: number) => Promise<readonly ErasureReport[]>;
  readonly findErasure: (projectId: string, id: string) => Promise<ErasureReport | null>;
}

export interface ReportRouteDeps {
  /** Returns a `CallList`, newest first. If `projectId` is null, it covers all projects. */
  readonly listCalls: (projectId: string | null, filter: ListOptions) => Promise<readonly unknown[]>;
  /** Returns the call in the schema `Call`, or null if the project has no such call. */
  readonly findCall: (projectId: string, id: string) => Promise<unknown>;
  /** Returns the project's usage in the current calendar month. */
  readonly getUsage: (project: Project) => Promise<unknown>;
  /** Returns the usage of all projects in the current calendar month. */
  readonly getDeploymentUsage: () => Promise<unknown>;
  readonly erasures: ErasureReports;
  readonly reprice: Reprice;
}

export function addReportRoutes(responders: Responders, deps: ReportRouteDeps): void {
  const { findProject, read, readProject, change } = responders;
  const { listCalls, findCall, getUsage, getDeploymentUsage, erasures, reprice } = deps;
  readProject('/teams/:project/calls', async ({ id }, { query }) => ({
    object: 'list',
    data: await listCalls(id, parseOrBadRequest(callsQuery, query)),
  }));
  read('/calls', async ({ query }) => ({ object: 'list', data: await listCalls(null, parseOrBadRequest(callsQuery, query)) }));
  readProject('/teams/:project/calls/:id', async (project, request) => {
    const call = await findCall(project.id, param(request, 'id'));
    if (call === null) throw gatewayError('not_found', { message: 'no such call' });
    return call;
  });
  readProject('/teams/:project/usage', (project) => getUsage(project));
  read('/usage', () => getDeploymentUsage());
  readProject('/teams/:project/erasures', async ({ id }, { query }) => {
    const { limit } = parseOrBadRequest(erasuresQuery, query);
    return toListJson(await erasures.listErasures(id, limit), toErasureReportJson);
  });
  readProject('/teams/:project/erasures/:id', async (project, request) => {
    const erasure = await erasures.findErasure(project.id, param(request, 'id'));
    if (erasure === null) throw gatewayError('not_found', { message: 'no such erasure' });
    return toErasureReportJson(erasure);
  });
  const repriceCalls = async ({ body }: Request, change: Change): Promise<unknown> => {
    const { project, ...window } = parseRepriceInput(body);
    const projectId = project === null ? null : (await findProject(project)).id;
    const receipt = await reprice({ ...window, projectId });
    change.note({ ...receipt });
    return { object: 'usage_reprice', project, ...receipt };
  };
  change('post', '/usage/reprice', 'usage.reprice', repriceCalls, projectInBody);
}

const limit = pageLimit.default(100);
const erasuresQuery = z.strictObject({ limit });
const callsQuery = z
  .strictObject({
    limit,
    before: z.string().refine(isUuid, 'must be the id of a call').optional(),
    task_id: z.string().min(1).max(256).optional(),
    source: z.string().min(1).max(256).optional(),
    request_id: z.string().min(1).max(128).optional(),
    subject: z.string().refine(isSubject, 'must be the id of an end user').optional(),
    hide_own: flag,
    failed: flag,
  })
  .transform(({ task_id: taskId, request_id: requestId, hide_own: hideOwn, ...others }) => ({ ...others, taskId, requestId, hideOwn }));
