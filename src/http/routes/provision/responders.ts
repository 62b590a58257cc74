/** How the handlers of `/provision` answer: the project of the URL, database errors as API errors, lists. */
import type { Request, RequestHandler, Response } from 'express';
import { gatewayError } from '../../../core/errors.ts';
import type { Project, Projects } from '../../../projects/projects.ts';
import { mapDatabaseErrors } from '../../database-errors.ts';
import { sendJson } from '../../error-handler.ts';

export interface Responders {
  /** Throws `not_found`. */
  findProject(slug: string): Promise<Project>;
  /** A handler whose database errors become API errors. */
  route(handle: (request: Request, response: Response) => Promise<void>): RequestHandler;
  /** Sends the JSON that `respond` returns for the project in the URL. */
  ofProject(respond: (project: Project, request: Request) => Promise<unknown>, status?: number): RequestHandler;
}

export function createResponders(projects: Pick<Projects, 'findBySlug'>): Responders {
  const findProject = async (slug: string): Promise<Project> => {
    const project = await projects.findBySlug(slug);
    if (!project) throw gatewayError('not_found', { message: 'no such project' });
    return project;
  };
  const route: Responders['route'] = (handle) => (request, response) => mapDatabaseErrors(() => handle(request, response));
  return {
    findProject,
    route,
    ofProject: (respond, status = 200) =>
      route(async (request, response) => {
        sendJson(response, status, await respond(await findProject(param(request, 'project')), request));
      }),
  };
}

export function toListJson<Row>(rows: readonly Row[], toJson: (row: Row) => unknown): Record<string, unknown> {
  return { object: 'list', data: rows.map((row) => toJson(row)) };
}

/** Express 5 types wildcard parameters as lists; these routes have none. */
export function param(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === 'string' ? value : '';
}
