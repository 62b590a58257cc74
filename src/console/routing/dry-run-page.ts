/** Shows the plan for a call without making the call. The state of the form is in the URL. */
import { textRoutes } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import type { ContentRule } from '../../guardrails/content-rule.ts';
import { type KeyRecord, noCeilings } from '../../keys/key-record.ts';
import type { Keyring } from '../../keys/keyring.ts';
import type { DryRunRequest, RunDry } from '../../pipeline/call/dry-run.ts';
import { backgroundCaller } from '../../pipeline/call/internal-call.ts';
import { toKeyOption } from '../frame/call-filters.ts';
import { filterForm, formatCount, selectField, textField, toOptions, withChosen } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { describeDryRun } from './dry-run-result.ts';

export interface DryRunPageDeps {
  readonly runDry: RunDry;
  readonly keyring: Pick<Keyring, 'list' | 'read'>;
  readonly contentRules: { find(projectId: string): Promise<readonly ContentRule[]> };
  readonly tierNames: () => readonly string[];
}

/** The number of keys that the form offers. To choose any other key, people can put its prefix into the URL. */
const maxKeys = 200;
const maxInputBytes = 1024 * 1024;

export async function showDryRun(deps: DryRunPageDeps, context: ConsoleContext): Promise<PageContent> {
  const { url, project, now } = context;
  const query = url.searchParams;
  const keys = await deps.keyring.list(project.id, { before: null, limit: maxKeys, usableAt: now });
  const isAsked = query.has('route');
  return {
    kind: 'page',
    title: 'What would happen to a call',
    breadcrumbs: [{ label: 'Routing', href: projectPath(context, '/routing') }],
    content: html`<p class="lead">Plans a call with the settings of this moment. Nothing is sent, reserved or recorded.</p>
${queryForm(deps, context, keys)}${isAsked ? await result(deps, context) : ''}`,
  };
}

function queryForm(deps: DryRunPageDeps, context: ConsoleContext, keys: readonly KeyRecord[]): Html {
  const query = context.url.searchParams;
  const prefix = query.get('key');
  const tiers = [...new Set(['auto', ...deps.tierNames(), ...Object.keys(context.project.settings.tiers)])];
  return filterForm(
    context,
    [
      selectField({ name: 'route', label: 'Route', value: query.get('route') ?? 'chat', options: textRoutes, required: true }),
      textField({
        name: 'model',
        label: 'Model or tier',
        value: query.get('model') ?? 'auto',
        suggestions: tiers,
        required: true,
        maxLength: 300,
      }),
      textField({
        name: 'application',
        label: 'Application',
        value: query.get('application'),
        placeholder: context.project.slug,
        maxLength: 256,
      }),
      selectField({
        name: 'key',
        label: 'Key',
        value: prefix,
        options: withChosen([{ value: '', label: 'No key' }, ...keys.map(toKeyOption)], prefix),
      }),
      textField({
        name: 'bytes',
        label: 'Size of the prompt',
        type: 'number',
        min: 0,
        max: maxInputBytes,
        step: 1,
        unit: 'bytes',
        value: query.get('bytes') ?? 400,
        required: true,
      }),
      textField({
        name: 'max_tokens',
        label: 'Output limit',
        type: 'number',
        min: 1,
        step: 1,
        unit: 'tokens',
        value: query.get('max_tokens'),
      }),
      selectField({
        name: 'stream',
        label: 'Streaming',
        value: query.get('stream'),
        options: toOptions({ '': 'No', yes: 'Yes' }),
      }),
    ],
    { submit: 'Plan the call' },
  );
}

async function result(deps: DryRunPageDeps, context: ConsoleContext): Promise<Html> {
  const request = await parseRequest(deps, context);
  const [run, rules] = await Promise.all([deps.runDry(request), deps.contentRules.find(context.project.id)]);
  return describeDryRun({ run, request, rules, isStreaming: context.url.searchParams.get('stream') === 'yes' });
}

async function parseRequest({ keyring }: DryRunPageDeps, { url, project }: ConsoleContext): Promise<DryRunRequest> {
  const query = url.searchParams;
  const route = textRoutes.find((name) => name === query.get('route'));
  if (route === undefined) throw gatewayError('bad_request', { message: `route: must be one of ${textRoutes.join(', ')}` });
  const prefix = query.get('key') ?? '';
  const key = prefix === '' ? null : await keyring.read(project.id, prefix);
  const maxOutputTokens = query.get('max_tokens');
  return {
    project,
    caller: key === null ? backgroundCaller(project.id) : { ...key, keyId: key.id, keyPrefix: key.prefix },
    ceilings: key?.ceilings ?? noCeilings,
    source: query.get('application')?.trim() || project.slug,
    route,
    requestedModel: query.get('model')?.trim() || 'auto',
    inputBytes: parseWhole('bytes', query.get('bytes') || '0', maxInputBytes),
    maxOutputTokens: maxOutputTokens ? parseWhole('max_tokens', maxOutputTokens, 10_000_000) : null,
  };
}

function parseWhole(name: string, text: string, max: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0 && value <= max) return value;
  throw gatewayError('bad_request', { message: `${name}: must be a whole number from 0 to ${formatCount(max)}` });
}
