/** `/provision/teams/{project}/applications`: what applications override (shapes 19). Mounted by `provision.ts`, behind the admin token. */
import type { Request, Response } from 'express';
import { type Applications, toApplicationJson } from '../../projects/applications.ts';
import type { Project } from '../../projects/projects.ts';
import { sendJson } from '../error-handler.ts';

export interface ApplicationHandlerDeps {
  readonly applications: Applications;
  /** The project that the address names. Throws `not_found`. */
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
    /** Always 200: an application exists without being provisioned, so nothing is made. */
    async put(request: Request, response: Response): Promise<void> {
      const { id } = await findProject(request);
      sendJson(response, 200, toApplicationJson(await applications.put(id, getSource(request), request.body)));
    },
  };
}

/** Decoded by Express; slashes in a name come as `%2F`. */
function getSource(request: Request): string {
  const { source } = request.params;
  return typeof source === 'string' ? source : '';
}
