/**
 * Shows a dry run: the plan with its candidates and skipped models, and what ceilings, cache and content rules would
 * do.
 */
import type { CounterKey } from '../../ceilings/counters.ts';
import type { ContentRule } from '../../guardrails/content-rule.ts';
import type { DryRun, DryRunCandidate, DryRunCeiling, DryRunRequest } from '../../pipeline/call/dry-run.ts';
import { describeCeiling, formatAmount } from '../frame/ceilings.ts';
import { badge, definitions, formatCount, formatPercent, notice, section, table } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { explainSkip } from '../frame/skip-reasons.ts';

interface DryRunResult {
  readonly run: DryRun;
  readonly request: DryRunRequest;
  readonly rules: readonly ContentRule[];
  readonly isStreaming: boolean;
}

export function describeDryRun({ run, request, rules, isStreaming }: DryRunResult): Html {
  return html`${verdict(run)}
${section('Plan', html`${tierLine(run, request.requestedModel)}${candidateTable(run)}`, { hint: 'The order of attempts: after a failure the next candidate is tried.' })}
${run.skipped.length === 0 ? '' : section('Skipped', skippedTable(run, request))}
${section('Ceilings', ceilingTable(run), { hint: 'Checked in this order, with the upper bound of the call.' })}
${section(
  'Cache and content rules',
  definitions([
    ['Response cache', cacheLine(run, request.project.settings.cache.ttlMs)],
    ['Rules on the input', ruleLine(rules, 'input')],
    ['Rules on the output', ruleLine(rules, 'output')],
    ...(isStreaming ? [['Streaming', streamLine(rules)] as const] : []),
  ]),
)}`;
}

function verdict({ refusal, candidates }: DryRun): Html {
  if (refusal)
    return notice(html`${refusal.message} <code>${refusal.code}</code>`, 'bad', `The call would be refused with ${refusal.status}`);
  return notice(html`First attempt: <code>${candidates[0]?.id}</code>`, 'good', 'The call would be sent');
}

const origins = { application: 'of the application', project: 'of the project', configuration: 'of the configuration' } as const;

function tierLine({ tier, canary, classifier }: DryRun, requestedModel: string): Html {
  if (tier === null)
    return html`<p><code>${requestedModel}</code> is ${requestedModel === 'auto' ? 'not a configured tier' : 'a model'}.</p>`;
  const how =
    classifier === 'rules'
      ? ', chosen by the rules for auto from the size of the prompt (tools and code in the prompt may change it)'
      : classifier === 'model'
        ? '. A small model chooses the tier of auto from the prompt; it was not asked, and this is the tier without its answer'
        : '';
  const instead =
    canary && html` In ${formatPercent(canary.share)} of the conversations, its canary <code>${canary.model}</code> is tried first.`;
  return html`<p>Tier <code>${tier.name}</code> ${origins[tier.origin]}${how}.${instead ?? ''}</p>`;
}

function candidateTable({ candidates }: DryRun): Html {
  return table<{ readonly position: number; readonly candidate: DryRunCandidate }>({
    caption: 'Candidates',
    rows: candidates.map((candidate, index) => ({ position: index + 1, candidate })),
    empty: 'No model of the chain can serve the call.',
    columns: [
      { label: 'Attempt', value: ({ position }) => position, align: 'end' },
      {
        label: 'Model',
        value: ({ candidate }) => html`<code>${candidate.id}</code>${candidate.member === null ? '' : ` at ${candidate.member}`}`,
        grow: true,
      },
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
    rows: skipped,
    columns: [
      { label: 'Model', value: ({ model }) => html`<code>${model}</code>` },
      { label: 'Why', value: ({ skipped: reason, model, lacks }) => explainSkip(reason ?? '', model, request.route, lacks), grow: true },
    ],
  });
}

const holders: Readonly<Record<CounterKey['scope'], string>> = { key: 'Key', source: 'Application', project: 'Project, monthly cap' };

function ceilingTable({ ceilings, candidates }: DryRun): Html {
  return table<DryRunCeiling>({
    caption: 'Ceilings',
    rows: ceilings,
    empty: candidates.length === 0 ? 'The call ends before ceilings are checked.' : 'No ceiling applies to the call.',
    columns: [
      { label: 'Of', value: ({ counter }) => holders[counter.key.scope] },
      { label: 'Ceiling', value: ({ counter: { key, limit } }) => describeCeiling(key.ceiling, { limit, window: key.window }) },
      { label: 'Used', align: 'end', value: ({ counter, used }) => formatAmount(counter.key.ceiling, used) },
      { label: 'Reserved', align: 'end', value: ({ counter, reserved }) => formatAmount(counter.key.ceiling, reserved) },
      { label: 'The call reserves', align: 'end', value: ({ counter, bound }) => `up to ${formatAmount(counter.key.ceiling, bound)}` },
      { label: 'Result', value: ({ isDenied }) => (isDenied ? badge('refused', 'bad') : badge('admitted', 'good')) },
    ],
  });
}

function cacheLine({ cache }: DryRun, ttlMs: number): string {
  const texts: Readonly<Record<DryRun['cache'], string>> = {
    searched: `Searched first: an identical call of the last ${formatCount(ttlMs / 1_000)} seconds is answered without a vendor`,
    disabled: 'Off for the project',
    route_not_cached: 'Only chat and messages are cached',
  };
  return texts[cache];
}

function ruleLine(rules: readonly ContentRule[], place: ContentRule['place']): string {
  const names = rules
    .filter((rule) => rule.place === place)
    .map((rule) => `${rule.class}${rule.expression ? ` ${rule.expression}` : ''} (${rule.action})`);
  return names.length === 0 ? 'None' : names.join(', ');
}

function streamLine(rules: readonly ContentRule[]): string {
  const blocks = rules.some(({ place, action }) => place === 'output' && action === 'block');
  return blocks
    ? 'The response is checked before its first byte is sent, because a rule blocks output'
    : 'Chunks are sent as the vendor sends them';
}
