/**
 * Registers the routes of `/provision`. For each of them, we look up the project in the URL, map database errors, and
 * write the audit row. The row is written before the change is made, and the outcome is added before we send the
 * response.
 */
import type { Request, Response, Router } from 'express';
import { gatewayError } from '../../../core/errors.ts';
import { asObject, asString } from '../../../core/json/narrow.ts';
import type { ActualChange, AuditDetail } from '../../../people/audit.ts';
import { type ChangeRecorder, recordChange } from '../../../people/record-change.ts';
import type { Project, Projects } from '../../../projects/projects.ts';
import { mapDatabaseErrors } from '../../database-errors.ts';
import { sendJson } from '../../error-handler.ts';

export interface Change {
  /**
   * Adds details to the audit row, such as ids, names or changed settings. Never add secrets, subjects, e-mail
   * addresses or content.
   */
  note(detail: AuditDetail): void;
  /** Corrects the action and the project of the audit row if the change did something else than we expected. */
  correct(actual: ActualChange): void;
  setStatus(status: number): void;
}

export type Responders = ReturnType<typeof createResponders>;

type ChangeMethod = 'post' | 'put' | 'patch' | 'delete';
/** The name of a change in the audit log. Pass a function if the name depends on the project. */
type Action = string | ((project: Project | null) => string);

export interface ResponderDeps extends ChangeRecorder {
  readonly projects: Pick<Projects, 'findBySlug'>;
}

export function createResponders(router: Router, { projects, ...recorder }: ResponderDeps) {
  /** Throws `not_found`. */
  const findProject = async (slug: string): Promise<Project> => requireProject(await projects.findBySlug(slug));

  const read = (path: string, respond: (request: Request) => Promise<unknown>): void => {
    router.get(path, async (request, response) => {
      sendJson(response, 200, await mapDatabaseErrors(() => respond(request)));
    });
  };

  /** Registers a route and writes an audit row for each of its requests. */
  const audited = (
    method: ChangeMethod,
    path: string,
    action: Action,
    respond: (project: Project | null, request: Request, change: Change) => Promise<unknown>,
    findSlug = projectInPath,
  ): void => {
    router[method](path, async (request, response) => {
      let status = 200;
      const json = await mapDatabaseErrors(async () => {
        const slug = findSlug(request);
        const project = slug ? await projects.findBySlug(slug) : null;
        const start = {
          ...({ actor: 'admin_token', personId: null, projectId: project?.id ?? null } as const),
          action: typeof action === 'string' ? action : action(project),
          target: findTarget(request),
        };
        return recordChange(recorder, start, (note, correct) =>
          respond(project, request, { note, correct, setStatus: (code) => (status = code) }),
        );
      });
      sendJson(response, status, json);
    });
  };

  return {
    findProject,
    read,
    /** Like `read`, but looks up the project in the URL and passes it to `respond`. */
    readProject: (path: string, respond: (project: Project, request: Request) => Promise<unknown>): void =>
      read(path, async (request) => respond(await findProject(param(request, 'project')), request)),
    /** Registers a route that changes something, so its requests are written to the audit log. */
    change: (
      method: ChangeMethod,
      path: string,
      action: Action,
      respond: (request: Request, change: Change) => Promise<unknown>,
      findSlug?: typeof projectInPath,
    ): void => audited(method, path, action, (_project, request, change) => respond(request, change), findSlug),
    /**
     * Like `change`, but looks up the project in the URL and passes it to `respond`. `check` can reject the request,
     * even if the project doesn't exist.
     */
    changeProject: (
      method: ChangeMethod,
      path: string,
      action: string,
      respond: (project: Project, request: Request, change: Change) => Promise<unknown>,
      check?: (request: Request) => void,
    ): void =>
      audited(method, path, action, async (project, request, change) => {
        check?.(request);
        return respond(requireProject(project), request, change);
      }),
    /**
     * Registers an audited GET route that streams its response. It looks up the project in the URL, and `respond` sends
     * the response itself.
     */
    streamProject(
      path: string,
      action: string,
      respond: (project: Project, request: Request, response: Response, change: Pick<Change, 'note'>) => Promise<void>,
    ): void {
      router.get(path, async (request, response) => {
        // Express also calls GET handlers for HEAD requests. Reject those, because they'd read the whole export just to
        // discard it.
        if (request.method !== 'GET') throw gatewayError('not_found');
        await mapDatabaseErrors(async () => {
          const project = await findProject(param(request, 'project'));
          const start = { actor: 'admin_token', personId: null, projectId: project.id, action, target: findTarget(request) } as const;
          await recordChange(recorder, start, (note) => respond(project, request, response, { note }));
        });
      });
    },
  };
}

const projectInPath = (request: Request): string | null => param(request, 'project') || null;

/** Returns the slug of the project that the body names. */
export const projectInBody = ({ body }: Request): string | null => asString(asObject(body).project);

function requireProject(project: Project | null): Project {
  if (!project) throw gatewayError('not_found', { message: 'no such project' });
  return project;
}

/**
 * Returns the last path parameter, e.g. a prefix or an id, as the target of the audit row. Returns null if it's an
 * e-mail address, because the row's detail contains the person's id instead.
 */
function findTarget({ params }: Request): string | null {
  const [name, value] = Object.entries(params).at(-1) ?? [];
  return typeof value === 'string' && name !== 'email' ? value.slice(0, 300) : null;
}

export function toListJson<Row>(rows: readonly Row[], toJson: (row: Row) => unknown): Record<string, unknown> {
  return { object: 'list', data: rows.map((row) => toJson(row)) };
}

/** Returns a path parameter. Express 5 only returns lists for wildcards, and none of our routes has one. */
export function param(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === 'string' ? value : '';
}
