/**
 * `/provision`: projects, keys, applications and call rows, for whoever holds the admin token (shapes 19). The command line calls these.
 *
 * The token is looked at before anything else, so an unknown caller learns neither which projects there are nor what a body should hold.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { NextFunction, Request, Response, Router } from 'express';
import express from 'express';
import { z } from 'zod';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { describeIssues } from '../../core/issues.ts';
import { keyJson } from '../../keys/key-record.ts';
import type { IssuedKey, Keyring } from '../../keys/keyring.ts';
import { type Project, type Projects, projectJson } from '../../projects/projects.ts';
import { readKey } from '../authenticate.ts';
import { checkContentType } from '../body.ts';
import { answerDatabaseFaults } from '../database-faults.ts';
import { sendJson } from '../error-handler.ts';
import { PlainTextError } from '../plain-text-error.ts';
import { createApplicationHandlers } from './provision-applications.ts';

export interface CallsFilter {
  readonly limit: number;
  /** Only rows older than the one with this id. */
  readonly before: string | null;
  readonly taskId: string | null;
  readonly source: string | null;
}

export interface ProvisionRouteDeps {
  readonly projects: Projects;
  readonly keyring: Keyring;
  /** Rows of shapes 21, newest first. */
  readonly listCalls: (projectId: string, filter: CallsFilter) => Promise<readonly unknown[]>;
  readonly adminToken: string;
}

const bodyLimitBytes = 1024 * 1024;

export function createProvisionRoutes({ projects, keyring, listCalls, adminToken }: ProvisionRouteDeps): Router {
  const router = express.Router();

  const projectOf = async (request: Request): Promise<Project> => {
    const project = await projects.findBySlug(param(request, 'project'));
    if (!project) throw gatewayError('not_found', { message: 'no such project' });
    return project;
  };

  /** A handler whose database faults become answers of the table. */
  const route = (handle: (request: Request, response: Response) => Promise<void>) => (request: Request, response: Response) =>
    answerDatabaseFaults(() => handle(request, response));

  router.use(requireToken(adminToken), readJson);

  router.get(
    '/teams',
    route(async (_request, response) => sendJson(response, 200, listJson((await projects.list()).map(projectJson)))),
  );
  router.get(
    '/teams/:project',
    route(async (request, response) => sendJson(response, 200, projectJson(await projectOf(request)))),
  );
  router.put(
    '/teams/:project',
    route(async (request, response) => {
      const { project, created } = await projects.put(param(request, 'project'), request.body);
      sendJson(response, created ? 201 : 200, projectJson(project));
    }),
  );
  router.get(
    '/teams/:project/keys',
    route(async (request, response) => {
      const keys = await keyring.list((await projectOf(request)).id);
      sendJson(response, 200, listJson(keys.map(keyJson)));
    }),
  );
  router.post(
    '/teams/:project/keys',
    route(async (request, response) => {
      const { id } = await projectOf(request);
      sendJson(response, 201, issuedJson(await keyring.issue(id, request.body)));
    }),
  );
  router.delete(
    '/teams/:project/keys/:prefix',
    route(async (request, response) => {
      const { id } = await projectOf(request);
      sendJson(response, 200, keyJson(await keyring.revoke(id, param(request, 'prefix'))));
    }),
  );
  router.post(
    '/teams/:project/keys/:prefix/rotate',
    route(async (request, response) => {
      const { id } = await projectOf(request);
      sendJson(response, 201, issuedJson(await keyring.rotate(id, param(request, 'prefix'), request.body)));
    }),
  );
  const applications = createApplicationHandlers({ applications: projects.applications, projectOf });
  router.get('/teams/:project/applications', route(applications.list));
  router.get('/teams/:project/applications/:source', route(applications.get));
  router.put('/teams/:project/applications/:source', route(applications.put));
  router.get(
    '/teams/:project/calls',
    route(async (request, response) => {
      const { id } = await projectOf(request);
      sendJson(response, 200, listJson(await listCalls(id, readCallsFilter(request.query))));
    }),
  );
  return router;
}

/** Refuses whoever does not hold the token. Hashes are compared, so that neither length nor content shows in the time. */
function requireToken(adminToken: string) {
  const expected = sha256(adminToken);
  return (request: Request, _response: Response, next: NextFunction): void => {
    if (!timingSafeEqual(sha256(readToken(request)), expected))
      throw gatewayError('invalid_key', { message: 'the admin token is not valid' });
    next();
  };
}

function readToken(request: Request): string {
  try {
    return readKey(request.headers, false);
  } catch (cause) {
    throw gatewayError('missing_key', { message: 'the admin token is required: Authorization: Bearer <ADMIN_TOKEN>', cause });
  }
}

const readBytes = express.raw({ type: () => true, limit: bodyLimitBytes, inflate: false });

/** Leaves the parsed body in `request.body`, undefined when there is none. */
function readJson(request: Request, response: Response, next: NextFunction): void {
  const hasBody = request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
  if (!hasBody) {
    request.body = undefined;
    next();
    return;
  }
  checkContentType(request);
  readBytes(request, response, (error?: unknown) => {
    try {
      if (error) throw bodyError(error);
      request.body = parse(request.body);
      next();
    } catch (fault) {
      next(fault);
    }
  });
}

function parse(bytes: unknown): unknown {
  if (!Buffer.isBuffer(bytes) || bytes.length === 0) return undefined;
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw gatewayError('bad_request', { message: 'the body is not valid JSON', cause });
  }
}

/** What Express's reader says is an error of `http-errors` with a type. */
function bodyError(error: unknown): Error {
  const type = error instanceof Error && 'type' in error ? error.type : undefined;
  if (type === 'entity.too.large') return new PlainTextError(413, `the body is larger than ${bodyLimitBytes} bytes`);
  return gatewayError('bad_request', { message: 'the body could not be read', cause: error });
}

const callsQuery = z.object({
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
  before: z.string().refine(isUuid, 'must be the id of a call').optional(),
  task_id: z.string().min(1).max(256).optional(),
  source: z.string().min(1).max(256).optional(),
});

function readCallsFilter(query: unknown): CallsFilter {
  const parsed = callsQuery.safeParse(query);
  if (!parsed.success) throw gatewayError('bad_request', { message: describeIssues(parsed.error).join('; ') });
  const { limit, before = null, task_id: taskId = null, source = null } = parsed.data;
  return { limit, before, taskId, source };
}

function issuedJson({ secret, record }: IssuedKey): Record<string, unknown> {
  const { revoked_at: _, ...json } = keyJson(record);
  return { key: secret, ...json };
}

function listJson(data: readonly unknown[]): Record<string, unknown> {
  return { object: 'list', data };
}

/** Express 5 types a parameter as text or a list; ours are never wildcards. */
function param(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === 'string' ? value : '';
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
