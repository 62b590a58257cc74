/** `/provision/teams/{project}/batches`: what learning does, and its replay (shapes 19). Mounted by `provision.ts`, behind the admin token. */
import type { Request, Response } from 'express';
import { z } from 'zod';
import { formatIssues } from '../../core/error-messages.ts';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { type Batches, batchStates } from '../../memory/learning/batches.ts';
import type { Project } from '../../projects/projects.ts';
import { sendJson } from '../error-handler.ts';

export interface BatchHandlerDeps {
  readonly batches: Batches;
  /** The project that the address names. Throws `not_found`. */
  readonly findProject: (request: Request) => Promise<Project>;
}

const query = z.object({ state: z.enum(batchStates).optional() });

export function createBatchHandlers({ batches, findProject }: BatchHandlerDeps) {
  return {
    async list(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      const parsed = query.safeParse(request.query);
      if (!parsed.success) throw gatewayError('bad_request', { message: formatIssues(parsed.error).join('; ') });
      sendJson(response, 200, { object: 'list', data: await batches.list(id, parsed.data.state ?? null) });
    },
    async show(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      sendJson(response, 200, await batches.show(id, parseBatchId(request)));
    },
    async replay(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      sendJson(response, 202, await batches.replay(id, parseBatchId(request)));
    },
  };
}

function parseBatchId(request: Request): string {
  const { id } = request.params;
  if (typeof id !== 'string' || !isUuid(id)) throw gatewayError('not_found', { message: 'no such batch' });
  return id.toLowerCase();
}
