import { gatewayError } from '../../core/errors.ts';
import type { Project } from '../../projects/projects.ts';
import { parseRange } from '../../usage/analytics/range.ts';
import {
  badge,
  csvLink,
  cutPage,
  exactUsd,
  fillFields,
  formatCount,
  pageParameter,
  pager,
  form as renderForm,
  table,
  textField,
  time,
  total,
} from '../frame/components.ts';
import { type FieldErrors, noErrors } from '../frame/field-errors.ts';
import { html } from '../frame/html.ts';
import { type ConsoleContext, type ConsoleRoute, type CsvValue, get, type PageContent, post } from '../frame/route.ts';
import { type DeploymentDeps, type ProjectFigures, readProjects } from './read-deployment.ts';
import { capMeter } from './tables.ts';

const path = '/admin/projects';
const url = `/console${path}`;
const pageSize = 100;

const days = 30;

type ProjectRoutesDeps = Pick<DeploymentDeps, 'projects' | 'analytics' | 'readStored'>;

export function createProjectRoutes(deps: ProjectRoutesDeps): readonly ConsoleRoute[] {
  const { projects } = deps;
  return [
    get(path, 'admin', (context) => projectsPage(deps, context)),
    get(`${path}.csv`, 'admin', async (context) => {
      return {
        kind: 'csv',
        fileName: 'projects.csv',
        header: [
          ...['project', 'name', 'may_call', 'monthly_cap_usd', 'created_at'],
          ...[`calls_${days}_days`, `errors_${days}_days`, `cost_usd_${days}_days`, 'month_to_date_usd'],
        ],
        rows: projectRows(deps, context),
      };
    }),
    get(`${path}/new`, 'admin', (context) => newProjectPage(context, new URLSearchParams())),
    post(path, { access: 'admin', action: 'project.create', invalidForm: newProjectPage }, async (_context, form) => {
      const slug = form.get('project')?.trim() ?? '';
      const name = form.get('name')?.trim() ?? '';
      if ((await projects.findBySlug(slug)) !== null)
        throw gatewayError('conflict', { issues: [{ path: 'project', message: 'already exists' }] });
      const { project } = await projects.put(slug, name === '' ? {} : { name });
      const audit = { project_id: project.id, project: slug, name: project.name };
      return {
        kind: 'redirect',
        to: `/console/p/${slug}/members`,
        notice: `The project ${project.name} exists now. Add its first owner.`,
        audit,
      };
    }),
  ];
}

async function* projectRows(deps: ProjectRoutesDeps, context: ConsoleContext): AsyncGenerator<readonly CsvValue[]> {
  const all = await deps.projects.list();
  for (let start = 0; start < all.length; start += pageSize) {
    const listed = await readFigures(deps, context, all.slice(start, start + pageSize));
    for (const { project, current, monthNanos } of listed) {
      const { slug, name, settings, createdAt } = project;
      yield [
        ...[slug, name, settings.mayCall, settings.monthlyCapNanos === null ? null : exactUsd(settings.monthlyCapNanos)],
        ...[new Date(createdAt).toISOString(), current.calls, current.errors, exactUsd(current.costNanos)],
        monthNanos === null ? null : exactUsd(monthNanos),
      ];
    }
  }
}

function readFigures(deps: ProjectRoutesDeps, { zone, now, signal }: ConsoleContext, projects: readonly Project[]) {
  const range = parseRange(new URLSearchParams({ range: `${days}d` }), { zone, now });
  return deps.readStored(() => readProjects(deps, { projects, range, zone, now, signal }));
}

async function projectsPage(deps: ProjectRoutesDeps, context: ConsoleContext): Promise<PageContent> {
  const after = context.url.searchParams.get(pageParameter) ?? '';
  const following = (await deps.projects.list()).filter(({ slug }) => slug > after);
  const { shown, next } = cutPage(following, pageSize, ({ slug }) => slug);
  const rows = await readFigures(deps, context, shown);
  return {
    kind: 'page',
    title: 'Projects',
    actions: html`${csvLink(context)}<a class="button" href="/console/admin/overview?range=${days}d">Overview</a><a class="button primary" href="${url}/new">New project</a>`,
    content: html`${table<ProjectFigures>({
      caption: 'Projects',
      rows,
      empty: 'A project has its own keys, routing, memory and members.',
      rowHref: ({ project }) => `/console/p/${project.slug}`,
      columns: [
        { label: 'Name', value: ({ project }) => project.name, grow: true },
        { label: 'Project', value: ({ project }) => html`<code>${project.slug}</code>` },
        { label: 'Calls', value: ({ project }) => (project.settings.mayCall ? badge('allowed', 'good') : badge('refused', 'bad')) },
        { label: `Calls, ${days} days`, align: 'end', value: ({ current }) => formatCount(current.calls) },
        { label: 'Errors', align: 'end', value: ({ current }) => formatCount(current.errors), wideOnly: true },
        { label: `Spend, ${days} days`, align: 'end', value: ({ current }) => total(current.costNanos) },
        { label: `${days} days before`, align: 'end', value: ({ previous }) => total(previous.costNanos), wideOnly: true },
        { label: 'Monthly cap', value: capMeter },
        { label: `Created (${context.zone})`, value: ({ project }) => time(project.createdAt, context.zone, 'date'), wideOnly: true },
      ],
    })}${pager(context, next, { first: 'First', next: 'Next' })}`,
  };
}

async function newProjectPage(context: ConsoleContext, form: URLSearchParams, errors: FieldErrors = noErrors): Promise<PageContent> {
  const filled = fillFields(form, errors);
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
          ...filled('project'),
          label: 'Project',
          hint: 'Identifies the project in URLs and over the API: a-z, 0-9 and "-". It cannot be changed.',
          required: true,
          maxLength: 63,
          pattern: '[a-z0-9][a-z0-9\\-]{0,62}',
          autocomplete: 'off',
          autofocus: true,
        }),
        textField({
          ...filled('name'),
          label: 'Name',
          hint: 'Shown in the console. By default the same as the project.',
          maxLength: 200,
          autocomplete: 'off',
        }),
      ],
    }),
  };
}
