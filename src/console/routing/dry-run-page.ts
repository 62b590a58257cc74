/** What would happen to a call: a form whose state is in the URL, and the plan that the call would get. */
import type { CounterKey } from '../../ceilings/counters.ts';
import { type Caller, internalKeyId, textRoutes } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import type { ContentRule } from '../../guardrails/content-rule.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import { noCeilings } from '../../keys/key-store.ts';
import type { Keyring } from '../../keys/keyring.ts';
import type { DryRun, DryRunCandidate, DryRunCeiling, DryRunRequest, RunDry } from '../../pipeline/call/dry-run.ts';
import { describeCeiling } from '../frame/ceilings.ts';
import {
  badge,
  definitions,
  filterForm,
  formatCount,
  formatUsd,
  notice,
  section,
  selectField,
  table,
  textField,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { explainSkip } from './skip-reasons.ts';

export interface DryRunPageDeps {
  readonly runDry: RunDry;
  readonly keyring: Pick<Keyring, 'list' | 'read'>;
  readonly contentRules: { find(projectId: string): Promise<readonly ContentRule[]> };
  /** Names of tiers that a call may request. */
  readonly tierNames: () => readonly string[];
}

/** Keys to choose from; others are entered by prefix in the URL. */
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
  const prefix = query.get('key') ?? '';
  const unlisted = prefix === '' || keys.some((key) => key.prefix === prefix) ? [] : [{ value: prefix, label: prefix }];
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
        options: [
          { value: '', label: 'No key' },
          ...keys.map((key) => ({ value: key.prefix, label: `${key.name} (${key.prefix})` })),
          ...unlisted,
        ],
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
        options: [
          { value: '', label: 'No' },
          { value: 'yes', label: 'Yes' },
        ],
      }),
    ],
    { submit: 'Plan the call' },
  );
}

async function result(deps: DryRunPageDeps, context: ConsoleContext): Promise<Html> {
  const { project } = context;
  const request = await parseRequest(deps, context);
  const [run, rules] = await Promise.all([deps.runDry(request), deps.contentRules.find(project.id)]);
  const isStreaming = context.url.searchParams.get('stream') === 'yes';
  return html`${verdict(run)}
${section('Plan', html`${tierLine(run, request.modelAsked)}${candidateTable(run)}`, { hint: 'The order of attempts: after a failure the next candidate is tried.' })}
${run.skipped.length === 0 ? '' : section('Skipped', skippedTable(run, request))}
${section('Ceilings', ceilingTable(run), { hint: 'Checked in this order, with the upper bound of the call.' })}
${section(
  'Cache and content rules',
  definitions([
    ['Response cache', cacheLine(run, project.settings.cache.ttlMs)],
    ['Rules on the input', ruleLine(rules, 'input')],
    ['Rules on the output', ruleLine(rules, 'output')],
    ...(isStreaming ? [['Streaming', streamLine(rules)] as const] : []),
  ]),
)}`;
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
    caller: callerOf(project.id, key),
    ceilings: key?.ceilings ?? noCeilings,
    source: query.get('application')?.trim() || project.slug,
    route,
    modelAsked: query.get('model')?.trim() || 'auto',
    inputBytes: parseWhole('bytes', query.get('bytes') || '0', maxInputBytes),
    maxOutputTokens: maxOutputTokens ? parseWhole('max_tokens', maxOutputTokens, 10_000_000) : null,
  };
}

function callerOf(projectId: string, key: KeyRecord | null): Caller {
  const { id = internalKeyId, prefix = '', quotaKeyId = internalKeyId, models = null, expiresAt = null } = key ?? {};
  return { keyId: id, keyPrefix: prefix, quotaKeyId, projectId, models, expiresAt };
}

function parseWhole(name: string, text: string, max: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0 && value <= max) return value;
  throw gatewayError('bad_request', { message: `${name}: must be a whole number from 0 to ${formatCount(max)}` });
}

function verdict({ refusal, candidates }: DryRun): Html {
  if (refusal)
    return notice(html`${refusal.message} <code>${refusal.code}</code>`, 'bad', `The call would be refused with ${refusal.status}`);
  return notice(html`First attempt: <code>${candidates[0]?.id}</code>`, 'good', 'The call would be sent');
}

const origins = { application: 'of the application', project: 'of the project', configuration: 'of the configuration' } as const;

function tierLine({ tier, classifier }: DryRun, modelAsked: string): Html {
  if (tier === null) return html`<p><code>${modelAsked}</code> is ${modelAsked === 'auto' ? 'not a configured tier' : 'a model'}.</p>`;
  const how =
    classifier === 'rules'
      ? ', chosen by the rules for auto from the size of the prompt (tools and code in the prompt may change it)'
      : classifier === 'model'
        ? '. A small model chooses the tier of auto from the prompt; it was not asked, and this is the tier without its answer'
        : '';
  return html`<p>Tier <code>${tier.name}</code> ${origins[tier.origin]}${how}.</p>`;
}

function candidateTable({ candidates }: DryRun): Html {
  return table<{ readonly position: number; readonly candidate: DryRunCandidate }>({
    caption: 'Candidates',
    hideCaption: true,
    rows: candidates.map((candidate, index) => ({ position: index + 1, candidate })),
    empty: 'No model of the chain can serve the call.',
    columns: [
      { label: 'Attempt', value: ({ position }) => position, align: 'end' },
      { label: 'Model', value: ({ candidate }) => html`<code>${candidate.id}</code>`, grow: true },
      { label: 'Notes', value: ({ candidate }) => notes(candidate) },
    ],
  });
}

function notes({ isFilled, isRetired, isHealthy }: DryRunCandidate): Html {
  return html`${isRetired ? html`${badge('retired: tried last', 'warning')} ` : ''}${isHealthy ? '' : html`${badge('breaker open or cooldown: tried after healthy ones', 'bad')} `}${isFilled ? badge('catalog fill') : ''}`;
}

function skippedTable({ skipped }: DryRun, request: DryRunRequest): Html {
  return table({
    caption: 'Skipped models',
    hideCaption: true,
    rows: skipped,
    empty: '',
    columns: [
      { label: 'Model', value: ({ model }) => html`<code>${model}</code>` },
      { label: 'Why', value: ({ skipped: reason, model }) => explainSkip(reason ?? '', model, request.route), grow: true },
    ],
  });
}

const holders: Readonly<Record<CounterKey['scope'], string>> = { key: 'Key', source: 'Application', project: 'Project, monthly cap' };

function ceilingTable({ ceilings, candidates }: DryRun): Html {
  return table<DryRunCeiling>({
    caption: 'Ceilings',
    hideCaption: true,
    rows: ceilings,
    empty: candidates.length === 0 ? 'The call ends before ceilings are checked.' : 'No ceiling applies to the call.',
    columns: [
      { label: 'Of', value: ({ counter }) => holders[counter.key.scope] },
      { label: 'Ceiling', value: ({ counter: { key, limit } }) => describeCeiling(key.ceiling, { limit, window: key.window }) },
      { label: 'Used', align: 'end', value: ({ counter, used }) => amount(counter.key, used) },
      { label: 'Reserved', align: 'end', value: ({ counter, reserved }) => amount(counter.key, reserved) },
      { label: 'The call reserves', align: 'end', value: ({ counter, bound }) => `up to ${amount(counter.key, bound)}` },
      { label: 'Result', value: ({ isDenied }) => (isDenied ? badge('refused', 'bad') : badge('admitted', 'good')) },
    ],
  });
}

function amount({ ceiling }: CounterKey, value: number): string {
  return ceiling === 'cost' ? formatUsd(value) : formatCount(value);
}

function cacheLine({ cache }: DryRun, ttlMs: number): string {
  switch (cache) {
    case 'searched':
      return `searched first: an identical call of the last ${formatCount(ttlMs / 1_000)} seconds is answered without a vendor`;
    case 'disabled':
      return 'off for the project';
    case 'route_not_cached':
      return 'only chat and messages are cached';
    default:
      return cache satisfies never;
  }
}

function ruleLine(rules: readonly ContentRule[], place: ContentRule['place']): string {
  const names = rules
    .filter((rule) => rule.place === place)
    .map((rule) => `${rule.class}${rule.expression ? ` ${rule.expression}` : ''} (${rule.action})`);
  return names.length === 0 ? 'none' : names.join(', ');
}

function streamLine(rules: readonly ContentRule[]): string {
  const blocks = rules.some(({ place, action }) => place === 'output' && action === 'block');
  return blocks
    ? 'the response is checked before its first byte is sent, because a rule blocks output'
    : 'chunks are sent as the vendor sends them';
}
