/** `/provision/teams/{project}/erasures`: what became of erasures, with the counts of all processes. */
import type { Request, Response } from 'express';
import { z } from 'zod';
import { formatIssues } from '../../core/error-messages.ts';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { sendJson } from '../error-handler.ts';

export interface ErasureHandlerDeps {
  /** Newest first. */
  readonly listErasures: (projectId: string, limit: number) => Promise<readonly unknown[]>;
  /** Null when there is none with that id. */
  readonly findErasure: (projectId: string, id: string) => Promise<unknown>;
}

const query = z.object({ limit: z.coerce.number().int().min(1).max(1_000).default(100) });

export function createErasureHandlers(
  { listErasures, findErasure }: ErasureHandlerDeps,
  findProject: (request: Request) => Promise<{ readonly id: string }>,
) {
  return {
    async list(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      const parsed = query.safeParse(request.query);
      if (!parsed.success) throw gatewayError('bad_request', { message: formatIssues(parsed.error).join('; ') });
      sendJson(response, 200, { object: 'list', data: await listErasures(id, parsed.data.limit) });
    },
    async get(request: Request, response: Response): Promise<void> {
      const { id: projectId } = await findProject(request);
      const { id = '' } = request.params;
      if (typeof id !== 'string' || !isUuid(id)) throw gatewayError('bad_request', { message: 'id: must be a UUID' });
      const erasure = await findErasure(projectId, id);
      if (erasure === null) throw gatewayError('not_found', { message: 'no such erasure' });
      sendJson(response, 200, erasure);
    },
  };
}
