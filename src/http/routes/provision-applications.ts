/** `/provision/teams/{project}/applications`: settings of applications. Mounted by `provision.ts`, which checks the admin token. */
import type { Request, Response } from 'express';
import { type Applications, toApplicationJson } from '../../projects/applications.ts';
import type { Project } from '../../projects/projects.ts';
import { sendJson } from '../error-handler.ts';

export interface ApplicationHandlerDeps {
  readonly applications: Applications;
  /** The project in the URL. Throws `not_found`. */
  readonly findProject: (request: Request) => Promise<Project>;
}

export function createApplicationHandlers({ applications, findProject }: ApplicationHandlerDeps) {
  return {
    async list(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      sendJson(response, 200, { object: 'list', data: (await applications.list(id)).map(toApplicationJson) });
    },
    async get(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      sendJson(response, 200, toApplicationJson(await applications.find(id, getSource(request))));
    },
    /** Always 200: applications exist without being provisioned, so nothing is created. */
    async put(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      sendJson(response, 200, toApplicationJson(await applications.put(id, getSource(request), request.body)));
    },
  };
}

/** Decoded by Express; a slash in a name is sent as `%2F`. */
function getSource(request: Request): string {
  const { source } = request.params;
  return typeof source === 'string' ? source : '';
}
