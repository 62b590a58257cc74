/**
 * How the handlers of `/provision` answer: the project of the URL, database errors as API errors, lists, and the audit row of each change.
 *
 * A change runs only after its row is written. The row is completed before the response is sent.
 */
import type { Request, RequestHandler, Response } from 'express';
import { gatewayError } from '../../../core/errors.ts';
import { asObject, asString } from '../../../core/json/narrow.ts';
import type { AuditDetail } from '../../../people/audit.ts';
import { type ChangeRecorder, recordChange } from '../../../people/record-change.ts';
import type { Project, Projects } from '../../../projects/projects.ts';
import { mapDatabaseErrors } from '../../database-errors.ts';
import { sendJson } from '../../error-handler.ts';

/** A change while it is made. */
export interface Change {
  /** Adds to the detail of the audit row: ids, names, changed settings; never secrets, texts, subjects or e-mail addresses. */
  note(detail: AuditDetail): void;
  /** Sets the status of the response, which is 200 otherwise. */
  setStatus(status: number): void;
}

export interface Responders {
  /** Throws `not_found`. */
  findProject(slug: string): Promise<Project>;
  /** Sends the JSON that `respond` returns. */
  read(respond: (request: Request) => Promise<unknown>): RequestHandler;
  /** As `read`, for the project in the URL. */
  readProject(respond: (project: Project, request: Request) => Promise<unknown>): RequestHandler;
  /** Makes a change and sends the JSON that `respond` returns. `action`: its name in the audit log, which may depend on the project. */
  change(
    action: string | ((project: Project | null) => string),
    respond: (request: Request, change: Change) => Promise<unknown>,
  ): RequestHandler;
  /** As `change`, for the project in the URL. */
  changeProject(action: string, respond: (project: Project, request: Request, change: Change) => Promise<unknown>): RequestHandler;
  /** As `changeProject`, for a read that is in the audit log, and whose response `respond` sends itself. */
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
    // Such a handler writes no audit row.
    if (request.method !== 'GET' && request.method !== 'HEAD') throw gatewayError('not_found');
    sendJson(response, 200, await mapDatabaseErrors(() => respond(request)));
  };

  /** `respond` gets the project that the URL or the body names; null when there is none. */
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
    // It would read all that a response to GET has.
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

/** The last parameter of the path, such as a prefix or an id. Null for a person, whom the detail names by id. */
function findTarget({ params }: Request): string | null {
  const [name, value] = Object.entries(params).at(-1) ?? [];
  return typeof value === 'string' && name !== 'email' ? value.slice(0, 300) : null;
}

export function toListJson<Row>(rows: readonly Row[], toJson: (row: Row) => unknown): Record<string, unknown> {
  return { object: 'list', data: rows.map((row) => toJson(row)) };
}

/** Express 5 types wildcard parameters as lists; these routes have none. */
export function param(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === 'string' ? value : '';
}
