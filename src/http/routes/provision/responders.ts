/**
 * How the handlers of `/provision` answer: the project of the URL, database errors as API errors, lists, and the audit row of each change.
 *
 * A change runs only after its row is written. The row is completed before the response is sent; if that fails, it stays without an outcome.
 */
import type { Request, RequestHandler } from 'express';
import { GatewayError, gatewayError } from '../../../core/errors.ts';
import { asObject, asString } from '../../../core/json/narrow.ts';
import type { Audit, AuditDetail } from '../../../people/audit.ts';
import type { Project, Projects } from '../../../projects/projects.ts';
import { mapDatabaseErrors } from '../../database-errors.ts';
import { sendJson } from '../../error-handler.ts';

/** A change while it is made. */
export interface Change {
  /** Adds to the detail of the audit row: ids, names, changed settings; never secrets, texts, subjects or e-mail addresses. */
  note(detail: AuditDetail): void;
  /** Of the response; 200 unless set. */
  status: number;
}

export interface Responders {
  /** Throws `not_found`. */
  findProject(slug: string): Promise<Project>;
  /** Sends the JSON that `respond` returns. */
  read(respond: (request: Request) => Promise<unknown>): RequestHandler;
  /** As `read`, for the project in the URL. */
  readProject(respond: (project: Project, request: Request) => Promise<unknown>): RequestHandler;
  /** Makes a change and sends the JSON that `respond` returns. `action`: its name in the audit log. */
  change(action: string, respond: (request: Request, change: Change) => Promise<unknown>): RequestHandler;
  /** As `change`, for the project in the URL. */
  changeProject(action: string, respond: (project: Project, request: Request, change: Change) => Promise<unknown>): RequestHandler;
}

export interface ResponderDeps {
  readonly projects: Pick<Projects, 'findBySlug'>;
  readonly audit: Pick<Audit, 'begin' | 'finish'>;
}

export function createResponders({ projects, audit }: ResponderDeps): Responders {
  const findProject = async (slug: string): Promise<Project> => requireProject(await projects.findBySlug(slug));

  const read: Responders['read'] = (respond) => async (request, response) => {
    // Such a handler writes no audit row.
    if (request.method !== 'GET' && request.method !== 'HEAD') throw gatewayError('not_found');
    sendJson(response, 200, await mapDatabaseErrors(() => respond(request)));
  };

  /** `respond` gets the project that the URL or the body names; null when there is none. */
  const audited =
    (action: string, respond: (project: Project | null, request: Request, change: Change) => Promise<unknown>): RequestHandler =>
    async (request, response) => {
      const detail: Record<string, unknown> = {};
      const change: Change = { note: (more) => Object.assign(detail, more), status: 200 };
      const json = await mapDatabaseErrors(async () => {
        const slug = param(request, 'project') || asString(asObject(request.body).project);
        const project = slug ? await projects.findBySlug(slug) : null;
        const target = findTarget(request);
        const id = await audit.begin({ actor: 'admin_token', personId: null, projectId: project?.id ?? null, action, target });
        const finish = (outcome: 'ok' | 'refused' | 'failed'): Promise<void> =>
          // The change is made or refused by now: failing would make the caller repeat it.
          audit.finish(id, outcome, detail).catch(() => undefined);
        try {
          const result = await respond(project, request, change);
          await finish('ok');
          return result;
        } catch (error) {
          const isRefused = error instanceof GatewayError && error.status < 500;
          if (error instanceof GatewayError) change.note({ code: error.code });
          await finish(isRefused ? 'refused' : 'failed');
          throw error;
        }
      });
      sendJson(response, change.status, json);
    };

  return {
    findProject,
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
