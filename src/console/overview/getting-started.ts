/**
 * Leads people through the first steps with a new project and shows which ones are done. An empty project shows these
 * steps instead of its overview.
 */

import { dayMs } from '../../core/time.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import type { Project } from '../../projects/projects.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import { codeBlock, countOf } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get } from '../frame/route.ts';

export interface ProjectSetup {
  readonly providers: readonly string[];
  readonly hasDemo: boolean;
  /** The names of all tiers with at least one chat model that the project can call. */
  readonly tiers: readonly string[];
  /** Keys that work right now. */
  readonly keys: number;
  readonly calls: number;
  /** The number of calls that took more than one attempt. */
  readonly failovers: number;
  readonly hasMemories: boolean;
}

export interface GettingStartedDeps {
  readonly analytics: Pick<Analytics, 'figures'>;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
  readonly listKeys: (projectId: string) => Promise<readonly KeyRecord[]>;
  readonly readSetup: (project: Project) => Promise<Pick<ProjectSetup, 'providers' | 'hasDemo' | 'tiers' | 'hasMemories'>>;
}

const path = '/getting-started';
/** The overview no longer mentions remaining steps once the project is older than this. */
const newDays = 30;

export function createGettingStartedRoutes(deps: GettingStartedDeps): readonly ConsoleRoute[] {
  return [
    get(path, 'member', async (context) => {
      const steps = await deps.readStored(() => readSteps(deps, context), context.project.id);
      return { kind: 'page', title: 'Getting started', content: html`<p class="lead">${progressOf(steps)}</p>${stepList(steps)}` };
    }),
  ];
}

export async function emptyProject(deps: GettingStartedDeps, context: ConsoleContext): Promise<Html> {
  const steps = await readSteps(deps, context);
  return html`<p class="lead">No calls in ${context.project.name} yet. Spend, latency and errors appear here with the first one. ${progressOf(steps)}</p>${stepList(steps)}`;
}

/**
 * Returns a line with the progress and the next step. Returns an empty string if all steps are done, or if the project
 * is older than `newDays`.
 */
export async function stepsLeft(deps: GettingStartedDeps, context: ConsoleContext): Promise<Html | string> {
  const { project, now } = context;
  if (now - project.createdAt > newDays * dayMs) return '';
  const steps = await readSteps(deps, context);
  const next = steps.find(({ isDone }) => !isDone);
  if (next === undefined) return '';
  return html`<p class="hint">${progressOf(steps)} Next: <a href="${projectPath(context, path)}">${next.title}</a></p>`;
}

function progressOf(steps: readonly Step[]): string {
  const done = steps.filter(({ isDone }) => isDone).length;
  return done === steps.length ? 'All steps are done.' : `${done} of ${steps.length} steps to get started are done.`;
}

async function readSteps({ analytics, listKeys, readSetup }: GettingStartedDeps, context: ConsoleContext): Promise<readonly Step[]> {
  const { project, now, zone, signal } = context;
  const [setup, keys, { total }] = await Promise.all([
    readSetup(project),
    listKeys(project.id),
    analytics.figures({ projectId: project.id, from: project.createdAt, to: now + 1, zone, costly: ['failovers'], signal }),
  ]);
  const isValid = ({ revokedAt, expiresAt }: KeyRecord) => revokedAt === null && (expiresAt === null || expiresAt > now);
  return stepsOf(context, { ...setup, keys: keys.filter(isValid).length, calls: total.calls, failovers: total.failovers });
}

interface Step {
  readonly title: string;
  readonly isDone: boolean;
  /** What to do, or the result if the step is done. */
  readonly text: Html | string;
  readonly actions?: readonly StepAction[];
  readonly code?: { readonly label: string; readonly text: string };
}

interface StepAction {
  readonly label: string;
  readonly href: string;
}

function stepsOf(context: ConsoleContext, setup: ProjectSetup): readonly Step[] {
  const { role, origin } = context;
  const isOwner = role === 'owner';
  const page = (label: string, path: string): StepAction => ({ label, href: projectPath(context, path) });
  const forOwners = (action: StepAction): Pick<Step, 'actions'> => (isOwner ? { actions: [action] } : {});
  const askOwner = isOwner ? '' : ' Only an owner of the project can do this.';
  const { providers, hasDemo, tiers, keys, calls, failovers, hasMemories } = setup;
  return [
    {
      title: 'Allow a provider',
      isDone: providers.length > 0,
      text:
        providers.length > 0
          ? html`The project can use ${list(providers)}.${hasDemo && providers.every((name) => name.startsWith('demo')) ? ' That is the demo vendor, which only repeats what you say. For others, add a provider to the configuration file.' : ''}`
          : html`The project may not use any provider. Providers are in the configuration file, and an owner allows them under <em>Routing</em>.${askOwner}`,
      ...forOwners(page('Routing', '/routing')),
    },
    {
      title: 'Fill a tier',
      isDone: tiers.length > 0,
      text:
        tiers.length > 0
          ? html`Applications can ask for ${list(tiers)}, and you decide which models that means.`
          : `A tier is a name such as standard for a chain of models. No tier has a chat model that the project can call.${askOwner}`,
      ...forOwners(page('Edit the tiers', '/routing/edit')),
    },
    {
      title: 'Create a key',
      isDone: keys > 0,
      text:
        keys > 0
          ? `The project has ${countOf(keys, 'key')}.`
          : `Each application calls the gateway with a virtual key. You can limit what it spends.${askOwner}`,
      actions: [isOwner && keys === 0 ? page('New key', '/keys/new') : page('Keys', '/keys')],
    },
    {
      title: 'Make the first call',
      isDone: calls > 0,
      text:
        calls > 0
          ? html`The project has made <a href="${projectPath(context, '/calls')}">calls</a>.`
          : 'Use the playground, or a key of the project. SDKs of OpenAI and Anthropic work too if you change their address.',
      actions: [page('Playground', '/playground')],
      ...(calls === 0 && { code: { label: 'A first call with curl', text: curl(origin) } }),
    },
    {
      title: 'See a failover',
      isDone: failovers > 0,
      text:
        failovers > 0
          ? html`The gateway has saved <a href="${projectPath(context, '/calls', { failover: 'yes' })}">${countOf(failovers, 'call')}</a> with another attempt.`
          : html`If a model fails, the gateway calls the next one in the tier. To see that, make a tier whose first model does not work, such as <code>${hasDemo ? 'demo/fail-503' : `${providers[0] ?? 'openai'}/no-such-model`}</code>, followed by one that does, and call it.${askOwner}`,
      actions: [...(isOwner && failovers === 0 ? [page('Edit the tiers', '/routing/edit')] : []), page('Dry run', '/routing/dry-run')],
    },
    {
      title: 'Give it a memory',
      isDone: hasMemories,
      text: hasMemories
        ? html`The project has <a href="${projectPath(context, '/memory')}">memories</a>. Calls with the header <code>x-gateway-memory: recall</code> get those that fit.`
        : 'The project can learn from the conversations of its applications. Write a first memory yourself, or check which applications memory listens to.',
      actions: hasMemories ? [page('Memories', '/memory')] : [page('New memory', '/memory/new'), page('Memory settings', '/settings')],
    },
  ];
}

function stepList(steps: readonly Step[]): Html {
  const next = steps.findIndex(({ isDone }) => !isDone);
  return html`<ol class="steps">${steps.map(
    ({ title, isDone, text, actions = [], code }, index) =>
      html`<li class="card step${isDone ? ' done' : ''}"${index === next ? html` aria-current="step"` : ''}><span class="step-mark" aria-hidden="true">${isDone ? '✓' : index + 1}</span><div class="step-body"><h2>${title}<span class="hidden">${isDone ? ', done' : ', to do'}</span></h2><p>${text}</p>${
        code === undefined ? '' : codeBlock(code.text, code.label)
      }${isDone ? '' : actionLinks(actions, index === next)}</div></li>`,
  )}</ol>`;
}

function actionLinks(actions: readonly StepAction[], isNext: boolean): Html | string {
  if (actions.length === 0) return '';
  const [main] = actions;
  return html`<div class="actions">${actions.map(
    (action) => html`<a class="button small${isNext && action === main ? ' primary' : ''}" href="${action.href}">${action.label}</a>`,
  )}</div>`;
}

function list(names: readonly string[]): Html {
  const shown = names.slice(0, 5);
  return html`${shown.map((name, index) => html`${index === 0 ? '' : ', '}<strong>${name}</strong>`)}${names.length > shown.length ? ` and ${names.length - shown.length} more` : ''}`;
}

function curl(origin: string): string {
  return `curl ${origin}/v1/chat/completions \\
  -H 'Authorization: Bearer <VIRTUAL_KEY>' \\
  -H 'Content-Type: application/json' \\
  -d '{"model": "auto", "messages": [{"role": "user", "content": "Hello"}]}'`;
}
