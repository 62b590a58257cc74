/** Serves the sample pages. People are stored in memory. */
import { createServer } from 'node:http';
import express from 'express';
import { createConsoleRouter } from '../../../src/console/frame/router.ts';
import { csrfTokenOf } from '../../../src/console/frame/same-site.ts';
import { systemClock } from '../../../src/core/time.ts';
import { createBodyMemory } from '../../../src/http/body-memory.ts';
import { createBodyShares } from '../../../src/http/body-shares.ts';
import { createErrorHandler } from '../../../src/http/error-handler.ts';
import { listenOn } from '../../../src/http/listen.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import type { Role, Session } from '../../../src/people/person.ts';
import { noPreferences } from '../../../src/people/preferences.ts';
import type { Project } from '../../../src/projects/projects.ts';
import { sampleRoutes } from './sample-pages.ts';

export interface AuditRow {
  readonly action: string;
  readonly personId: string | null;
  readonly projectId: string | null;
  readonly target: string | null;
  outcome: string | null;
  detail: unknown;
}

export interface SampleConsole {
  readonly url: string;
  readonly audit: readonly AuditRow[];
  readonly logs: readonly string[];
  /**
   * Sends a GET request without following redirects. The secret of a session is the name of its person: owner, member,
   * admin or stranger.
   */
  get(path: string, person?: string, headers?: Readonly<Record<string, string>>): Promise<Response>;
  post(
    path: string,
    person: string,
    options?: {
      readonly fields?: Readonly<Record<string, string>>;
      readonly headers?: Readonly<Record<string, string>>;
      readonly csrf?: string;
    },
  ): Promise<Response>;
  close(): Promise<void>;
}

const roles: Readonly<Record<string, Role | null>> = { owner: 'owner', member: 'member', admin: 'owner', stranger: null };

export async function startSampleConsole(): Promise<SampleConsole> {
  const audit: AuditRow[] = [];
  const logs: string[] = [];
  const logger = createLogger({ level: 'info', destination: { write: (line) => void logs.push(line) } });
  const app = express();
  app.use(
    createConsoleRouter({
      routes: sampleRoutes,
      sessions: { find: async (secret) => (secret in roles ? sessionOf(secret) : null) },
      members: {
        roleOf: async (personId) => roles[personId] ?? null,
        projectsOf: async ({ id }) => (roles[id] ? [{ slug: 'acme', name: 'Acme', role: roles[id] }] : []),
      },
      audit: {
        async begin({ action, personId, projectId, target = null }) {
          return audit.push({ action, personId, projectId, target, outcome: null, detail: null }) - 1;
        },
        async finish(id, outcome, detail) {
          Object.assign(audit[id] ?? {}, { outcome, detail });
        },
      },
      findProject: async (slug) => (slug === 'acme' ? ({ id: 'p1', slug, name: 'Acme' } as Project) : null),
      zoneOf: () => 'Asia/Kolkata',
      publicUrl: () => null,
      bodyShares: createBodyShares(createBodyMemory(512 * 1024 * 1024)),
      clock: systemClock,
      logger,
    }),
  );
  app.use(createErrorHandler({ logger, countError: () => undefined, errorPace: () => 0 }));
  const server = createServer(app);
  const url = await listenOn(server, '127.0.0.1', 0);
  const cookieOf = (person: string | undefined): Record<string, string> =>
    person === undefined ? {} : { cookie: `gateway_session=${person}` };
  return {
    url,
    audit,
    logs,
    get: (path, person, headers) => fetch(url + path, { headers: { ...cookieOf(person), ...headers }, redirect: 'manual' }),
    post(path, person, { fields = {}, headers = { 'sec-fetch-site': 'same-origin' }, csrf = csrfTokenOf(person) } = {}) {
      const body = new URLSearchParams({ csrf, ...fields });
      return fetch(url + path, { method: 'POST', body, headers: { ...cookieOf(person), ...headers }, redirect: 'manual' });
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function sessionOf(id: string): Session {
  const person = { id, email: `${id}@example.com`, name: id, isAdmin: id === 'admin' };
  return { id, person, preferences: noPreferences, createdAt: 0, lastSeenAt: 0, expiresAt: Number.MAX_SAFE_INTEGER };
}
