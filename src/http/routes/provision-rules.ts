/** Content rules in `/provision` (shapes 19). */
import type { Request, Response } from 'express';
import type { ContentRules } from '../../projects/content-rules.ts';
import type { Project } from '../../projects/projects.ts';
import { sendJson } from '../error-handler.ts';

export interface RulesHandlerDeps {
  readonly contentRules: ContentRules;
  /** The project that the address names. Throws `not_found`. */
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
