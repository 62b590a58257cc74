/** Routes that list, show, replay and stop learning batches, for one project or for all of them. */
import type { Request } from 'express';
import { z } from 'zod';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import { type Batches, batchStates } from '../../../memory/learning/batches.ts';
import { toBatchJson } from '../../shapes/memory-json.ts';
import { provisionRequests } from './request-schemas.ts';
import { type Change, param, projectInBody, type Responders, toListJson } from './responders.ts';

export function addBatchRoutes(responders: Responders, batches: Batches): void {
  const { findProject, read, readProject, change, changeProject } = responders;
  readProject('/teams/:project/batches', async ({ id }, { query }) => {
    const { state = null } = parseOrBadRequest(batchesQuery, query);
    return toListJson(await batches.list(id, state), toBatchJson);
  });
  readProject('/teams/:project/batches/:id', async ({ id }, request) => toBatchJson(await batches.show(id, parseBatchId(request))));
  const replay = async (projectId: string | null, request: Request, change: Change): Promise<unknown> => {
    const batch = await batches.replay(projectId, parseBatchId(request));
    change.note({ project: batch.project, state: batch.state });
    change.setStatus(202);
    return toBatchJson(batch);
  };
  changeProject('post', '/teams/:project/batches/:id/replay', 'batch.replay', ({ id }, request, change) => replay(id, request, change));
  read('/batches', async (request) => {
    const { project, state = null } = parseOrBadRequest(allBatchesQuery, request.query);
    const projectId = project === undefined ? null : (await findProject(project)).id;
    return toListJson(await batches.list(projectId, state), toBatchJson);
  });
  const replayAll = async ({ body }: Request, change: Change): Promise<unknown> => {
    const { project, state } = parseOrBadRequest(provisionRequests.BatchReplayBody, body);
    const replayed = await batches.replayAll((await findProject(project)).id, state);
    change.note({ state, batches: replayed });
    change.setStatus(202);
    return { object: 'memory.batch_replay', project, state, batches: replayed };
  };
  change('post', '/batches/replay', 'batch.replay_all', replayAll, projectInBody);
  read('/batches/:id', async (request) => toBatchJson(await batches.show(null, parseBatchId(request))));
  change('post', '/batches/:id/replay', 'batch.replay', (request, change) => replay(null, request, change));
  change('post', '/batches/:id/stop', 'batch.stop', async (request, change) => {
    const batch = await batches.stop(null, parseBatchId(request));
    change.note({ project: batch.project });
    return toBatchJson(batch);
  });
}

const batchesQuery = z.strictObject({ state: z.enum(batchStates).optional() });
const allBatchesQuery = batchesQuery.extend({ project: z.string().min(1).optional() });

function parseBatchId(request: Request): string {
  return param(request, 'id').toLowerCase();
}
