/** Lets deployment admins list and create projects. */
import { gatewayError } from '../../core/errors.ts';
import type { Project, Projects } from '../../projects/projects.ts';
import { badge, csvLink, cutPage, pageParameter, pager, form as renderForm, table, textField, time, usd } from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
import { html } from '../frame/html.ts';
import type { ConsoleContext, ConsoleRoute, CsvValue, PageContent } from '../frame/route.ts';

const path = '/admin/projects';
const url = `/console${path}`;
const pageSize = 100;

export function createProjectRoutes({
  projects,
}: {
  readonly projects: Pick<Projects, 'findBySlug' | 'list' | 'put'>;
}): readonly ConsoleRoute[] {
  return [
    { method: 'get', path, access: 'admin', handle: async (context) => projectsPage(context, await projects.list()) },
    {
      method: 'get',
      path: `${path}.csv`,
      access: 'admin',
      async handle() {
        const list = await projects.list();
        const rows = list.map(({ slug, name, settings, createdAt }): CsvValue[] => [
          slug,
          name,
          settings.mayCall,
          settings.monthlyCapNanos === null ? null : settings.monthlyCapNanos / 1e9,
          new Date(createdAt).toISOString(),
        ]);
        return {
          kind: 'csv',
          fileName: 'projects.csv',
          header: ['project', 'name', 'may_call', 'monthly_cap_usd', 'created_at'],
          rows,
        };
      },
    },
    { method: 'get', path: `${path}/new`, access: 'admin', handle: async (context) => newProjectPage(context, new URLSearchParams()) },
    {
      method: 'post',
      path,
      access: 'admin',
      action: 'project.create',
      async handle(_context, form) {
        const slug = form.get('project')?.trim() ?? '';
        const name = form.get('name')?.trim() ?? '';
        if ((await projects.findBySlug(slug)) !== null)
          throw gatewayError('conflict', { issues: [{ path: 'project', message: 'exists already' }] });
        const { project } = await projects.put(slug, name === '' ? {} : { name });
        const audit = { project_id: project.id, project: slug, name: project.name };
        return {
          kind: 'redirect',
          to: `/console/p/${slug}/members`,
          notice: `The project ${project.name} exists now. Add its first owner.`,
          audit,
        };
      },
      invalidForm: async (context, form, errors) => newProjectPage(context, form, errors),
    },
  ];
}

function projectsPage(context: ConsoleContext, projects: readonly Project[]): PageContent {
  const after = context.url.searchParams.get(pageParameter) ?? '';
  const following = projects.filter(({ slug }) => slug > after);
  const { shown, next } = cutPage(following, pageSize, ({ slug }) => slug);
  return {
    kind: 'page',
    title: 'Projects',
    actions: html`${csvLink(context)}<a class="button primary" href="${url}/new">New project</a>`,
    content: html`${table<Project>({
      caption: 'Projects',
      hideCaption: true,
      rows: shown,
      empty: 'A project has its own keys, routing, memory and members.',
      rowHref: ({ slug }) => `/console/p/${slug}`,
      columns: [
        { label: 'Name', value: ({ name }) => name, grow: true },
        { label: 'Project', value: ({ slug }) => html`<code>${slug}</code>` },
        { label: 'Calls', value: ({ settings }) => (settings.mayCall ? badge('allowed', 'good') : badge('refused', 'bad')) },
        {
          label: 'Monthly cap',
          align: 'end',
          value: ({ settings }) =>
            settings.monthlyCapNanos === null ? html`<span class="muted">None</span>` : usd(settings.monthlyCapNanos),
        },
        { label: `Created (${context.zone})`, value: ({ createdAt }) => time(createdAt, context.zone, 'date'), wideOnly: true },
      ],
    })}${pager(context, next, { first: 'First', next: 'Next' })}`,
  };
}

function newProjectPage(context: ConsoleContext, form: URLSearchParams, errors: FieldErrors = noErrors): PageContent {
  return {
    kind: 'page',
    title: 'New project',
    breadcrumbs: [{ label: 'Projects', href: url }],
    content: renderForm({
      context,
      action: url,
      submit: 'Create project',
      cancelHref: url,
      fields: [
        textField({
          name: 'project',
          label: 'Project',
          hint: 'Identifies the project in URLs and over the API: a-z, 0-9 and "-". It cannot be changed.',
          value: form.get('project'),
          error: errors.of('project'),
          required: true,
          maxLength: 63,
          pattern: '[a-z0-9][a-z0-9\\-]{0,62}',
          autocomplete: 'off',
          autofocus: true,
        }),
        textField({
          name: 'name',
          label: 'Name',
          hint: 'Shown in the console. By default the same as the project.',
          value: form.get('name'),
          error: errors.of('name'),
          maxLength: 200,
          autocomplete: 'off',
        }),
      ],
    }),
  };
}
