/** Routes to list, show, replay and stop learning batches, for one project or for all of them. */
import type { Request, Router } from 'express';
import { z } from 'zod';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import { type Batches, batchStates } from '../../../memory/learning/batches.ts';
import { toBatchJson } from '../memory-json.ts';
import { provisionRequests } from './request-schemas.ts';
import { type Change, param, type Responders, toListJson } from './responders.ts';

export function addBatchRoutes(router: Router, responders: Responders, batches: Batches): void {
  const { findProject, read, readProject, change, changeProject } = responders;
  router.get(
    '/teams/:project/batches',
    readProject(async ({ id }, { query }) => {
      const { state = null } = parseOrBadRequest(batchesQuery, query);
      return toListJson(await batches.list(id, state), toBatchJson);
    }),
  );
  router.get(
    '/teams/:project/batches/:id',
    readProject(async ({ id }, request) => toBatchJson(await batches.show(id, parseBatchId(request)))),
  );
  const replay = async (projectId: string | null, request: Request, change: Change): Promise<unknown> => {
    const batch = await batches.replay(projectId, parseBatchId(request));
    change.note({ project: batch.project, state: batch.state });
    change.setStatus(202);
    return toBatchJson(batch);
  };
  router.post(
    '/teams/:project/batches/:id/replay',
    changeProject('batch.replay', ({ id }, request, change) => replay(id, request, change)),
  );
  router.get(
    '/batches',
    read(async (request) => {
      const { project, state = null } = parseOrBadRequest(allBatchesQuery, request.query);
      const projectId = project === undefined ? null : (await findProject(project)).id;
      return toListJson(await batches.list(projectId, state), toBatchJson);
    }),
  );
  router.post(
    '/batches/replay',
    change('batch.replay_all', async (request, change) => {
      const { project, state } = parseOrBadRequest(provisionRequests.BatchReplayBody, request.body);
      const replayed = await batches.replayAll((await findProject(project)).id, state);
      change.note({ state, batches: replayed });
      change.setStatus(202);
      return { object: 'memory.batch_replay', project, state, batches: replayed };
    }),
  );
  router.get(
    '/batches/:id',
    read(async (request) => toBatchJson(await batches.show(null, parseBatchId(request)))),
  );
  router.post(
    '/batches/:id/replay',
    change('batch.replay', (request, change) => replay(null, request, change)),
  );
  router.post(
    '/batches/:id/stop',
    change('batch.stop', async (request, change) => {
      const batch = await batches.stop(parseBatchId(request));
      change.note({ project: batch.project });
      return toBatchJson(batch);
    }),
  );
}

const batchesQuery = z.object({ state: z.enum(batchStates).optional() });
const allBatchesQuery = batchesQuery.extend({ project: z.string().optional() });

function parseBatchId(request: Request): string {
  return param(request, 'id').toLowerCase();
}
