/** Routes for projects and their settings: routing, applications, content rules and memory. */
import type { Router } from 'express';
import { changedMembers } from '../../../core/changed-members.ts';
import type { Issue } from '../../../core/error-messages.ts';
import { asObject } from '../../../core/json/narrow.ts';
import type { MemorySettingsStore } from '../../../memory/records/settings.ts';
import { toApplicationJson } from '../../../projects/applications.ts';
import { parseStoredSettings, toProjectSettings } from '../../../projects/project-settings.ts';
import { type Projects, toProjectJson } from '../../../projects/projects.ts';
import type { Catalog } from '../../../routing/catalog.ts';
import { checkApplicationChange, checkProjectChange, type RoutingFindings } from '../../../routing/check-change.ts';
import { param, type Responders, toListJson } from './responders.ts';

/** The number of calls that the response lists for each rule. */
const newestHits = 20;

export interface SettingsRouteDeps {
  readonly projects: Projects;
  readonly memorySettings: MemorySettingsStore;
  /** Returns what routing depends on besides the settings of a project. */
  readonly routing: () => { readonly catalog: Catalog; readonly catalogFill: boolean };
}

export function addSettingsRoutes(router: Router, responders: Responders, deps: SettingsRouteDeps): void {
  const { projects, memorySettings, routing } = deps;
  const { read, readProject, change, changeProject } = responders;
  const { applications, contentRules, ruleHits } = projects;

  router.get(
    '/teams',
    read(async () => toListJson(await projects.list(), toProjectJson)),
  );
  router.get(
    '/teams/:project',
    readProject(async (project) => toProjectJson(project)),
  );
  router.put(
    '/teams/:project',
    change(
      (project) => (project ? 'project.change' : 'project.create'),
      async (request, change) => {
        const slug = param(request, 'project');
        const before = await projects.findBySlug(slug);
        const { project, created } = await projects.put(slug, request.body);
        const json = toProjectJson(project);
        const written = Object.entries(json).filter(([name]) => Object.hasOwn(asObject(request.body), name));
        const changed = before ? changedMembers(toProjectJson(before), json) : changedMembers({}, Object.fromEntries(written));
        change.note({ changed });
        change.setStatus(created ? 201 : 200);
        return { ...json, warnings: warningsOf(checkProjectChange(routing(), before?.settings ?? unsetProject, project.settings)) };
      },
    ),
  );
  router.get(
    '/teams/:project/applications',
    readProject(async ({ id }) => toListJson(await applications.list(id), toApplicationJson)),
  );
  router.get(
    '/teams/:project/applications/:source',
    readProject(async ({ id }, request) => toApplicationJson(await applications.find(id, param(request, 'source')))),
  );
  // The status is always 200, because an application exists even without settings, so nothing is created.
  router.put(
    '/teams/:project/applications/:source',
    changeProject('application.change', async ({ id, settings }, request, change) => {
      const source = param(request, 'source');
      const before = await applications.find(id, source);
      const after = await applications.put(id, source, request.body);
      const json = toApplicationJson(after);
      change.note({ changed: changedMembers(toApplicationJson(before), json) });
      return { ...json, warnings: warningsOf(checkApplicationChange(routing(), settings, before.settings, after.settings)) };
    }),
  );
  router.delete(
    '/teams/:project/applications/:source',
    changeProject('application.reset', async ({ id }, request, change) => {
      const source = param(request, 'source');
      const before = toApplicationJson(await applications.find(id, source));
      const after = toApplicationJson(await applications.reset(id, source));
      change.note({ changed: changedMembers(before, after) });
      return after;
    }),
  );
  router.get(
    '/teams/:project/rules',
    readProject(async ({ id }) => ({ rules: await contentRules.find(id) })),
  );
  router.get(
    '/teams/:project/rules/hits',
    readProject(async ({ id }) => {
      const rows = await ruleHits.list(id, await contentRules.find(id), newestHits);
      return toListJson(rows, ({ rule, hits, calls }) => ({ ...rule, hits, calls }));
    }),
  );
  router.put(
    '/teams/:project/rules',
    changeProject('rules.change', async ({ id }, { body }, change) => {
      const before = { rules: await contentRules.find(id) };
      const after = { rules: await contentRules.put(id, body) };
      change.note({ changed: changedMembers(before, after) });
      return after;
    }),
  );
  router.get(
    '/teams/:project/memory',
    readProject(({ id }) => memorySettings.read(id)),
  );
  router.put(
    '/teams/:project/memory',
    changeProject('memory.update', async ({ id }, { body }, change) => {
      const { previous, settings } = await memorySettings.change(id, body);
      change.note({ changed: changedMembers(previous, settings) });
      return settings;
    }),
  );
}

/** A project without settings, which a new one is compared with. */
const unsetProject = toProjectSettings(parseStoredSettings({}), new Map());

/**
 * The API saves a change whatever it does to routing, because tools may write the projects before the configuration with
 * their providers is loaded. The response says what the console would refuse or ask about.
 */
function warningsOf({ mistakes, warnings }: RoutingFindings): readonly Issue[] {
  return [...mistakes, ...warnings];
}
