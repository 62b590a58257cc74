/** `/provision/teams/{project}/batches`: learning batches and their replay. Mounted by `provision.ts`, which checks the admin token. */
import type { Request, Response } from 'express';
import { z } from 'zod';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { type Batches, batchStates } from '../../memory/learning/batches.ts';
import type { Project } from '../../projects/projects.ts';
import { sendJson } from '../error-handler.ts';
import { toBatchJson } from './memory-json.ts';

export interface BatchHandlerDeps {
  readonly batches: Batches;
  /** The project in the URL. Throws `not_found`. */
  readonly findProject: (request: Request) => Promise<Project>;
}

const query = z.object({ state: z.enum(batchStates).optional() });

export function createBatchHandlers({ batches, findProject }: BatchHandlerDeps) {
  return {
    async list(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      const { state = null } = parseOrBadRequest(query, request.query);
      sendJson(response, 200, { object: 'list', data: (await batches.list(id, state)).map(toBatchJson) });
    },
    async show(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      sendJson(response, 200, toBatchJson(await batches.show(id, parseBatchId(request))));
    },
    async replay(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      sendJson(response, 202, toBatchJson(await batches.replay(id, parseBatchId(request))));
    },
  };
}

function parseBatchId(request: Request): string {
  const { id } = request.params;
  if (typeof id !== 'string' || !isUuid(id)) throw gatewayError('not_found', { message: 'no such batch' });
  return id.toLowerCase();
}
