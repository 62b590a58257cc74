import { gatewayError } from '../../core/errors.ts';
import {
  parseApplicationChange,
  parseStoredApplication,
  toApplicationSettings,
  toApplicationSettingsJson,
} from '../../projects/application-settings.ts';
import type { Applications } from '../../projects/applications.ts';
import { noErrors } from '../frame/field-errors.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, post } from '../frame/route.ts';
import { auditOf, compareSettings } from '../frame/settings-edit.ts';
import { assertSafeChange } from '../frame/tier-checks.ts';
import { assertDistinctTiers } from '../frame/tier-fields.ts';
import { type ApplicationListDeps, applicationPath, exportApplications, readUse, showApplications } from './application-list.ts';
import {
  type ApplicationPageDeps,
  applicationPage,
  arrange,
  editOf,
  findingsOf,
  newApplicationPage,
  readApplicationInput,
} from './application-page.ts';

export interface ApplicationRoutesDeps extends ApplicationListDeps, ApplicationPageDeps {
  readonly applications: Applications;
}

export function createApplicationRoutes(deps: ApplicationRoutesDeps): readonly ConsoleRoute[] {
  const { applications } = deps;

  const find = async (context: ConsoleContext) => {
    const { project, now } = context;
    const application = await applications.find(project.id, nameOf(context));
    return { application, uses: await readUse(deps, project.id, application.source, application.settings, now) };
  };

  return [
    get('/applications', 'member', (context) => showApplications(deps, context)),
    get('/applications.csv', 'member', (context) => exportApplications(deps, context)),
    get('/applications/new', 'owner', async (context) =>
      newApplicationPage(deps, context, { form: new URLSearchParams({ application: nameOf(context) }), errors: noErrors }),
    ),
    post(
      '/applications/new',
      {
        access: 'owner',
        action: 'application.change',
        invalidForm: async (context, form, errors) => {
          return newApplicationPage(deps, context, { form, errors, findings: findingsOf(deps, context, unsetApplication, form) });
        },
      },
      async (context, form) => {
        const source = form.get('application')?.trim() ?? '';
        const existing = await applications.find(context.project.id, source);
        if (existing.createdAt !== null)
          throw gatewayError('conflict', {
            issues: [{ path: 'source', message: 'the application already has settings; open it in the list to change them' }],
          });
        const defaults = toApplicationSettingsJson(existing.settings);
        assertDistinctTiers(form);
        const edit = compareSettings(defaults, readApplicationInput(form));
        parseApplicationChange(source, edit.change);
        assertSafeChange(findingsOf(deps, context, existing, form), form);
        await applications.put(context.project.id, source, edit.change, defaults);
        return {
          kind: 'redirect',
          to: applicationPath(context, source),
          notice: 'Saved.',
          audit: { application: source, changed: auditOf(edit) },
        };
      },
    ),
    post('/applications/new/arrange', { access: 'owner', action: null }, async (context, form) => ({
      kind: 'page',
      page: newApplicationPage(deps, context, arrange(deps, context, form)),
    })),
    get('/applications/application', 'member', async (context) => {
      return applicationPage(deps, context, await find(context));
    }),
    post(
      '/applications/application',
      {
        access: 'owner',
        action: 'application.change',
        invalidForm: async (context, form, errors) => {
          const found = await find(context);
          return applicationPage(deps, context, found, { form, errors, findings: findingsOf(deps, context, found.application, form) });
        },
      },
      async (context, form) => {
        const source = nameOf(context);
        assertDistinctTiers(form);
        const edit = editOf(form);
        const to = applicationPath(context, source);
        if (Object.keys(edit.change).length === 0) return { kind: 'redirect', to, notice: 'Nothing was changed.' };
        parseApplicationChange(source, edit.change);
        assertSafeChange(findingsOf(deps, context, await applications.find(context.project.id, source), form), form);
        await applications.put(context.project.id, source, edit.change, edit.read);
        return { kind: 'redirect', to, notice: 'Saved.', audit: { application: source, changed: auditOf(edit) } };
      },
    ),
    post('/applications/application/arrange', { access: 'owner', action: null }, async (context, form) => ({
      kind: 'page',
      page: applicationPage(deps, context, await find(context), arrange(deps, context, form)),
    })),
    post('/applications/reset', { access: 'owner', action: 'application.reset' }, async (context, form) => {
      const source = form.get('application') ?? '';
      await applications.reset(context.project.id, source);
      return {
        kind: 'redirect',
        to: projectPath(context, '/applications'),
        notice: `The settings of ${source} were removed.`,
        audit: { application: source },
      };
    }),
  ];
}

/** A new application has no settings, so its form is compared with these defaults. */
const unsetApplication = { settings: toApplicationSettings(parseStoredApplication({})) };

function nameOf({ url }: ConsoleContext): string {
  return url.searchParams.get('name') ?? '';
}
