/** `/provision/teams/{project}/rules`: content rules. Mounted by `provision.ts`, which checks the admin token. */
import type { Request, Response } from 'express';
import type { ContentRules } from '../../projects/content-rules.ts';
import type { Project } from '../../projects/projects.ts';
import { sendJson } from '../error-handler.ts';

export interface RulesHandlerDeps {
  readonly contentRules: ContentRules;
  /** The project in the URL. Throws `not_found`. */
  readonly findProject: (request: Request) => Promise<Project>;
}

export function createRulesHandlers({ contentRules, findProject }: RulesHandlerDeps) {
  return {
    async get(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      sendJson(response, 200, { rules: await contentRules.find(id) });
    },
    async put(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      sendJson(response, 200, { rules: await contentRules.put(id, request.body) });
    },
  };
}
