/** Learning batches, of one project or of all: list, show, replay. */
import type { Request, Router } from 'express';
import { z } from 'zod';
import { gatewayError } from '../../../core/errors.ts';
import { isUuid } from '../../../core/ids.ts';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import { type Batches, batchStates } from '../../../memory/learning/batches.ts';
import { sendJson } from '../../error-handler.ts';
import { toBatchJson } from '../memory-json.ts';
import { provisionRequests } from './request-schemas.ts';
import { param, type Responders, toListJson } from './responders.ts';

export function addBatchRoutes(router: Router, { findProject, route, ofProject }: Responders, batches: Batches): void {
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
}

const batchesQuery = z.object({ state: z.enum(batchStates).optional() });
const allBatchesQuery = batchesQuery.extend({ project: z.string().optional() });

function parseBatchId(request: Request): string {
  const id = param(request, 'id');
  if (!isUuid(id)) throw gatewayError('not_found', { message: 'no such batch' });
  return id.toLowerCase();
}
