/** `/provision/usage`: recalculates stored calls after a price was wrong or unknown. Used by `gateway usage`. */
import type { Request, Response, Router } from 'express';
import express from 'express';
import { gatewayError } from '../../core/errors.ts';
import type { Reprice } from '../../usage/reprice.ts';
import { parseRepriceInput } from '../../usage/reprice-input.ts';
import { readJson, requireToken } from '../admin.ts';
import { mapDatabaseErrors } from '../database-errors.ts';
import { sendJson } from '../error-handler.ts';

export interface ProvisionUsageDeps {
  readonly findProject: (slug: string) => Promise<{ readonly id: string } | null>;
  readonly reprice: Reprice;
  readonly adminToken: string;
}

const maxBodyBytes = 1024 * 1024;

export function createProvisionUsageRoutes({ findProject, reprice, adminToken }: ProvisionUsageDeps): Router {
  const router = express.Router();

  const findProjectId = async (slug: string | null): Promise<string | null> => {
    if (slug === null) return null;
    const project = await mapDatabaseErrors(() => findProject(slug));
    if (!project) throw gatewayError('not_found', { message: 'no such project' });
    return project.id;
  };

  router.post('/usage/reprice', requireToken(adminToken), readJson(maxBodyBytes), async (request: Request, response: Response) => {
    const { project, ...window } = parseRepriceInput(request.body);
    const projectId = await findProjectId(project);
    const receipt = await mapDatabaseErrors(() => reprice({ ...window, projectId }));
    sendJson(response, 200, { object: 'usage_reprice', project, ...receipt });
  });
  return router;
}
