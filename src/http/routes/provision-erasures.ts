/** `/provision/teams/{project}/erasures`: erasures with the counts of all processes. */
import type { Request, Response } from 'express';
import { z } from 'zod';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import type { ErasureReport } from '../../memory/erasure/erasure-report.ts';
import { sendJson } from '../error-handler.ts';
import { toErasureReportJson } from './memory-json.ts';

export interface ErasureHandlerDeps {
  /** Newest first. */
  readonly listErasures: (projectId: string, limit: number) => Promise<readonly ErasureReport[]>;
  /** Null when no erasure has that id. */
  readonly findErasure: (projectId: string, id: string) => Promise<ErasureReport | null>;
}

const query = z.object({ limit: z.coerce.number().int().min(1).max(1_000).default(100) });

export function createErasureHandlers(
  { listErasures, findErasure }: ErasureHandlerDeps,
  findProject: (request: Request) => Promise<{ readonly id: string }>,
) {
  return {
    async list(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      const { limit } = parseOrBadRequest(query, request.query);
      sendJson(response, 200, { object: 'list', data: (await listErasures(id, limit)).map(toErasureReportJson) });
    },
    async get(request: Request, response: Response): Promise<void> {
      const { id: projectId } = await findProject(request);
      const { id = '' } = request.params;
      if (typeof id !== 'string' || !isUuid(id)) throw gatewayError('bad_request', { message: 'id: must be a UUID' });
      const erasure = await findErasure(projectId, id);
      if (erasure === null) throw gatewayError('not_found', { message: 'no such erasure' });
      sendJson(response, 200, toErasureReportJson(erasure));
    },
  };
}
