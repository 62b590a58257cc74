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

/** For each rule, the response lists this many of the newest calls that it matched. */
const newestHits = 20;

export interface SettingsRouteDeps {
  readonly projects: Projects;
  readonly memorySettings: MemorySettingsStore;
  readonly routing: () => { readonly catalog: Catalog; readonly catalogFill: boolean };
}

export function addSettingsRoutes(responders: Responders, deps: SettingsRouteDeps): void {
  const { projects, memorySettings, routing } = deps;
  const { read, readProject, change, changeProject } = responders;
  const { applications, contentRules, ruleHits } = projects;

  read('/teams', async () => toListJson(await projects.list(), toProjectJson));
  readProject('/teams/:project', async (project) => toProjectJson(project));
  change(
    'put',
    '/teams/:project',
    (project) => (project ? 'project.change' : 'project.create'),
    async (request, change) => {
      const slug = param(request, 'project');
      const { project, previous, created } = await projects.put(slug, request.body);
      const json = toProjectJson(project);
      const written = Object.entries(json).filter(([name]) => Object.hasOwn(asObject(request.body), name));
      const changed = previous ? changedMembers(toProjectJson(previous), json) : changedMembers({}, Object.fromEntries(written));
      change.note({ changed });
      // Several requests can try to create the same project at once, but only one of them does.
      if (!created) change.correct({ action: 'project.change', projectId: project.id });
      change.setStatus(created ? 201 : 200);
      return { ...json, warnings: warningsOf(checkProjectChange(routing(), previous?.settings ?? unsetProject, project.settings)) };
    },
  );
  readProject('/teams/:project/applications', async ({ id }) => toListJson(await applications.list(id), toApplicationJson));
  readProject('/teams/:project/applications/:source', async ({ id }, request) =>
    toApplicationJson(await applications.find(id, param(request, 'source'))),
  );
  // Applications exist even without settings, so the status is never 201.
  changeProject('put', '/teams/:project/applications/:source', 'application.change', async ({ id, settings }, request, change) => {
    const source = param(request, 'source');
    const before = await applications.find(id, source);
    const after = await applications.put(id, source, request.body);
    const json = toApplicationJson(after);
    change.note({ changed: changedMembers(toApplicationJson(before), json) });
    return { ...json, warnings: warningsOf(checkApplicationChange(routing(), settings, before.settings, after.settings)) };
  });
  changeProject('delete', '/teams/:project/applications/:source', 'application.reset', async ({ id }, request, change) => {
    const source = param(request, 'source');
    const before = toApplicationJson(await applications.find(id, source));
    const after = toApplicationJson(await applications.reset(id, source));
    change.note({ changed: changedMembers(before, after) });
    return after;
  });
  readProject('/teams/:project/rules', async ({ id }) => ({ rules: await contentRules.find(id) }));
  readProject('/teams/:project/rules/hits', async ({ id }) => {
    const rows = await ruleHits.list(id, await contentRules.find(id), newestHits);
    return toListJson(rows, ({ rule, hits, calls }) => ({ ...rule, hits, calls }));
  });
  changeProject('put', '/teams/:project/rules', 'rules.change', async ({ id }, { body }, change) => {
    const before = { rules: await contentRules.find(id) };
    const after = { rules: await contentRules.put(id, body) };
    change.note({ changed: changedMembers(before, after) });
    return after;
  });
  readProject('/teams/:project/memory', ({ id }) => memorySettings.read(id));
  changeProject('put', '/teams/:project/memory', 'memory.update', async ({ id }, { body }, change) => {
    const { previous, settings } = await memorySettings.change(id, body);
    change.note({ changed: changedMembers(previous, settings) });
    return settings;
  });
}

/** A new project has no previous settings, so `checkProjectChange` compares its settings with these defaults. */
const unsetProject = toProjectSettings(parseStoredSettings({}), new Map());

/**
 * Tools may create projects before we've loaded a configuration with their providers, so the API accepts settings that
 * break routing. The response lists everything that the console would have refused or asked to confirm.
 */
function warningsOf({ mistakes, warnings }: RoutingFindings): readonly Issue[] {
  return [...mistakes, ...warnings];
}
