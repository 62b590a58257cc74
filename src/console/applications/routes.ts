/** Routes of the pages about applications. */
import { gatewayError } from '../../core/errors.ts';
import { toApplicationSettingsJson } from '../../projects/application-settings.ts';
import type { Applications } from '../../projects/applications.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, ConsoleRoute } from '../frame/route.ts';
import { auditOf, compareSettings } from '../frame/settings-edit.ts';
import { type ApplicationListDeps, applicationPath, exportApplications, readUse, showApplications } from './application-list.ts';
import { applicationPage, assertTiers, editOf, newApplicationPage, readApplicationInput } from './application-page.ts';

export interface ApplicationRoutesDeps extends ApplicationListDeps {
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
    { method: 'get', path: '/applications', access: 'member', handle: (context) => showApplications(deps, context) },
    { method: 'get', path: '/applications.csv', access: 'member', handle: (context) => exportApplications(deps, context) },
    {
      method: 'get',
      path: '/applications/new',
      access: 'owner',
      handle: async (context) => newApplicationPage(context, new URLSearchParams({ application: nameOf(context) })),
    },
    {
      method: 'post',
      path: '/applications/new',
      access: 'owner',
      action: 'application.change',
      async handle(context, form) {
        const source = form.get('application')?.trim() ?? '';
        assertTiers(form);
        const existing = await applications.find(context.project.id, source);
        if (existing.createdAt !== null)
          throw gatewayError('conflict', {
            issues: [{ path: 'source', message: 'the application already has settings; open it in the list to change them' }],
          });
        const defaults = toApplicationSettingsJson(existing.settings);
        const edit = compareSettings(defaults, readApplicationInput(form));
        await applications.put(context.project.id, source, edit.change, defaults);
        return {
          kind: 'redirect',
          to: applicationPath(context, source),
          notice: 'Saved.',
          audit: { application: source, changed: auditOf(edit) },
        };
      },
      invalidForm: async (context, form, errors) => newApplicationPage(context, form, errors),
    },
    {
      method: 'get',
      path: '/applications/application',
      access: 'member',
      async handle(context) {
        const { application, uses } = await find(context);
        return applicationPage(context, application, uses);
      },
    },
    {
      method: 'post',
      path: '/applications/application',
      access: 'owner',
      action: 'application.change',
      async handle(context, form) {
        const source = nameOf(context);
        assertTiers(form);
        const edit = editOf(form);
        const to = applicationPath(context, source);
        if (Object.keys(edit.change).length === 0) return { kind: 'redirect', to, notice: 'Nothing was changed.' };
        await applications.put(context.project.id, source, edit.change, edit.read);
        return { kind: 'redirect', to, notice: 'Saved.', audit: { application: source, changed: auditOf(edit) } };
      },
      async invalidForm(context, form, errors) {
        const { application, uses } = await find(context);
        return applicationPage(context, application, uses, { form, errors });
      },
    },
    {
      method: 'post',
      path: '/applications/reset',
      access: 'owner',
      action: 'application.reset',
      async handle(context, form) {
        const source = form.get('application') ?? '';
        await applications.reset(context.project.id, source);
        return {
          kind: 'redirect',
          to: projectPath(context, '/applications'),
          notice: `The settings of ${source} were removed.`,
          audit: { application: source },
        };
      },
    },
  ];
}

function nameOf({ url }: ConsoleContext): string {
  return url.searchParams.get('name') ?? '';
}
