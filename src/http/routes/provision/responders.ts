/**
 * Helpers for the handlers of `/provision`. They look up the project in the URL, map database errors, build lists, and
 * write the audit row of each change. We write the row before we make the change, and complete it before we send the
 * response.
 */
import type { Request, RequestHandler, Response } from 'express';
import { gatewayError } from '../../../core/errors.ts';
import { asObject, asString } from '../../../core/json/narrow.ts';
import type { AuditDetail } from '../../../people/audit.ts';
import { type ChangeRecorder, recordChange } from '../../../people/record-change.ts';
import type { Project, Projects } from '../../../projects/projects.ts';
import { mapDatabaseErrors } from '../../database-errors.ts';
import { sendJson } from '../../error-handler.ts';

/** A change that is being made. */
export interface Change {
  /**
   * Adds details to the audit row, e.g. ids, names or changed settings. Never add secrets, texts, subjects or e-mail
   * addresses.
   */
  note(detail: AuditDetail): void;
  /** Sets the status of the response. The default is 200. */
  setStatus(status: number): void;
}

export interface Responders {
  /** Throws `not_found`. */
  findProject(slug: string): Promise<Project>;
  /** Returns a handler that sends the JSON that `respond` returns. */
  read(respond: (request: Request) => Promise<unknown>): RequestHandler;
  /** Like `read`, but passes the project in the URL. */
  readProject(respond: (project: Project, request: Request) => Promise<unknown>): RequestHandler;
  /**
   * Returns a handler that makes a change and sends the JSON that `respond` returns. `action` is the name of the change
   * in the audit log, which may depend on the project.
   */
  change(
    action: string | ((project: Project | null) => string),
    respond: (request: Request, change: Change) => Promise<unknown>,
  ): RequestHandler;
  /** Like `change`, but passes the project in the URL. */
  changeProject(action: string, respond: (project: Project, request: Request, change: Change) => Promise<unknown>): RequestHandler;
  /** Like `changeProject`, but for a read that we record in the audit log. `respond` sends the response itself. */
  streamProject(
    action: string,
    respond: (project: Project, request: Request, response: Response, change: Pick<Change, 'note'>) => Promise<void>,
  ): RequestHandler;
}

export interface ResponderDeps extends ChangeRecorder {
  readonly projects: Pick<Projects, 'findBySlug'>;
}

export function createResponders({ projects, ...recorder }: ResponderDeps): Responders {
  const findProject = async (slug: string): Promise<Project> => requireProject(await projects.findBySlug(slug));

  const read: Responders['read'] = (respond) => async (request, response) => {
    // These handlers don't write an audit row, so they must not serve any other method.
    if (request.method !== 'GET' && request.method !== 'HEAD') throw gatewayError('not_found');
    sendJson(response, 200, await mapDatabaseErrors(() => respond(request)));
  };

  /** `respond` gets the project named in the URL or in the body, or null if there is none. */
  const audited =
    (
      action: string | ((project: Project | null) => string),
      respond: (project: Project | null, request: Request, change: Change) => Promise<unknown>,
    ): RequestHandler =>
    async (request, response) => {
      let status = 200;
      const json = await mapDatabaseErrors(async () => {
        const slug = param(request, 'project') || asString(asObject(request.body).project);
        const project = slug ? await projects.findBySlug(slug) : null;
        const start = {
          ...({ actor: 'admin_token', personId: null, projectId: project?.id ?? null } as const),
          action: typeof action === 'string' ? action : action(project),
          target: findTarget(request),
        };
        return recordChange(recorder, start, (note) => respond(project, request, { note, setStatus: (code) => (status = code) }));
      });
      sendJson(response, status, json);
    };

  const streamProject: Responders['streamProject'] = (action, respond) => async (request, response) => {
    // Express also uses this handler for HEAD, which would read the whole export.
    if (request.method !== 'GET') throw gatewayError('not_found');
    await mapDatabaseErrors(async () => {
      const project = await findProject(param(request, 'project'));
      const start = { actor: 'admin_token', personId: null, projectId: project.id, action, target: findTarget(request) } as const;
      await recordChange(recorder, start, (note) => respond(project, request, response, { note }));
    });
  };

  return {
    findProject,
    streamProject,
    read,
    readProject: (respond) => read(async (request) => respond(await findProject(param(request, 'project')), request)),
    change: (action, respond) => audited(action, (_project, request, change) => respond(request, change)),
    changeProject: (action, respond) => audited(action, (project, request, change) => respond(requireProject(project), request, change)),
  };
}

function requireProject(project: Project | null): Project {
  if (!project) throw gatewayError('not_found', { message: 'no such project' });
  return project;
}

/** Returns the last parameter of the path, e.g. a prefix or an id. Null for people, because the detail has their id. */
function findTarget({ params }: Request): string | null {
  const [name, value] = Object.entries(params).at(-1) ?? [];
  return typeof value === 'string' && name !== 'email' ? value.slice(0, 300) : null;
}

export function toListJson<Row>(rows: readonly Row[], toJson: (row: Row) => unknown): Record<string, unknown> {
  return { object: 'list', data: rows.map((row) => toJson(row)) };
}

/** Express 5 types wildcard parameters as lists, but these routes don't have any. */
export function param(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === 'string' ? value : '';
}
