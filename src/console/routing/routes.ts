/** The pages about a project's routing. Members can try it in a dry run, and owners can change it. */
import { parseProjectChange } from '../../projects/project-settings.ts';
import type { Projects } from '../../projects/projects.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleRoute, get, post } from '../frame/route.ts';
import { auditOf } from '../frame/settings-edit.ts';
import { assertDistinctTiers } from '../frame/tier-fields.ts';
import { type DryRunPageDeps, showDryRun } from './dry-run-page.ts';
import { arrangedForm, assertRouting, editOf, rejectedForm, routingForm } from './routing-form.ts';
import { exportTiers, type RoutingPageDeps, showRouting } from './routing-page.ts';

export interface RoutingRoutesDeps extends RoutingPageDeps, Omit<DryRunPageDeps, 'tierNames'> {
  readonly projects: Pick<Projects, 'put'>;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
}

export function createRoutingRoutes(deps: RoutingRoutesDeps): readonly ConsoleRoute[] {
  const tierNames = (): string[] => [...deps.catalog().tiers.keys()];
  return [
    get('/routing', 'member', (context) => deps.readStored(() => showRouting(deps, context), context.project.id)),
    get('/routing.csv', 'member', (context) => exportTiers(deps, context)),
    get('/routing/dry-run', 'member', (context) => showDryRun({ ...deps, tierNames }, context)),
    get('/routing/edit', 'owner', async (context) => routingForm(deps, context)),
    post(
      '/routing/edit',
      {
        access: 'owner',
        action: 'project.change',
        // Show the form with the current settings of the project, because somebody else may have changed them in the
        // meantime.
        invalidForm: async (context, form, errors) => rejectedForm(deps, context, form, errors),
      },
      async (context, form) => {
        assertDistinctTiers(form);
        const edit = editOf(form);
        const to = projectPath(context, '/routing');
        if (Object.keys(edit.change).length === 0) return { kind: 'redirect', to, notice: 'Nothing was changed.' };
        parseProjectChange(context.project.slug, edit.change);
        assertRouting(deps, context, form);
        await deps.projects.put(context.project.slug, edit.change, edit.read);
        return {
          kind: 'redirect',
          to,
          notice: 'Saved. Calls that start from now on use these settings.',
          audit: { changed: auditOf(edit) },
        };
      },
    ),
    post('/routing/edit/arrange', { access: 'owner', action: null }, async (context, form) => ({
      kind: 'page',
      page: arrangedForm(deps, context, form),
    })),
  ];
}
