/** Projects and their settings: routing, applications, content rules, memory. */
import type { Router } from 'express';
import type { MemorySettingsStore } from '../../../memory/records/settings.ts';
import { toApplicationJson } from '../../../projects/applications.ts';
import { type Projects, toProjectJson } from '../../../projects/projects.ts';
import { sendJson } from '../../error-handler.ts';
import { param, type Responders, toListJson } from './responders.ts';

export interface SettingsRouteDeps {
  readonly projects: Projects;
  readonly memorySettings: MemorySettingsStore;
}

export function addSettingsRoutes(router: Router, { route, ofProject }: Responders, deps: SettingsRouteDeps): void {
  const { projects, memorySettings } = deps;
  const { applications, contentRules } = projects;

  router.get(
    '/teams',
    route(async (_request, response) => sendJson(response, 200, toListJson(await projects.list(), toProjectJson))),
  );
  router.get(
    '/teams/:project',
    ofProject(async (project) => toProjectJson(project)),
  );
  router.put(
    '/teams/:project',
    route(async (request, response) => {
      const { project, created } = await projects.put(param(request, 'project'), request.body);
      sendJson(response, created ? 201 : 200, toProjectJson(project));
    }),
  );
  router.get(
    '/teams/:project/applications',
    ofProject(async ({ id }) => toListJson(await applications.list(id), toApplicationJson)),
  );
  router.get(
    '/teams/:project/applications/:source',
    ofProject(async ({ id }, request) => toApplicationJson(await applications.find(id, param(request, 'source')))),
  );
  // Always 200: applications exist without being provisioned, so nothing is created.
  router.put(
    '/teams/:project/applications/:source',
    ofProject(async ({ id }, request) => toApplicationJson(await applications.put(id, param(request, 'source'), request.body))),
  );
  router.delete(
    '/teams/:project/applications/:source',
    ofProject(async ({ id }, request) => toApplicationJson(await applications.reset(id, param(request, 'source')))),
  );
  router.get(
    '/teams/:project/rules',
    ofProject(async ({ id }) => ({ rules: await contentRules.find(id) })),
  );
  router.put(
    '/teams/:project/rules',
    ofProject(async ({ id }, { body }) => ({ rules: await contentRules.put(id, body) })),
  );
  router.get(
    '/teams/:project/memory',
    ofProject(({ id }) => memorySettings.read(id)),
  );
  router.put(
    '/teams/:project/memory',
    ofProject(({ id }, { body }) => memorySettings.update(id, body)),
  );
}
