/** Lists the calls in which a content rule matched, for the last seven days. */
import { isUuid, timeOf } from '../../core/ids.ts';
import { type ContentRule, ruleIdOf } from '../../guardrails/content-rule.ts';
import { maxCallsPerHour, type RuleHits, ruleHitsDays } from '../../projects/rule-hits.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import type { CallSummary } from '../../usage/analytics/call-list.ts';
import { badge, cutPage, formatCount, pager, parsePageId, table, time } from '../frame/components.ts';
import { html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { describeRule } from './rule-form.ts';

export interface RuleHitsPageDeps {
  readonly ruleHits: Pick<RuleHits, 'count' | 'listCalls'>;
  readonly analytics: Pick<Analytics, 'callsById' | 'recordedRefusals'>;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
}

const pageSize = 100;

type HitCall = Pick<CallSummary, 'source' | 'requestedModel' | 'status' | 'outcome'>;

interface Row {
  readonly id: string;
  /** Undefined if the call was refused before it reached a vendor or the cache. */
  readonly call: HitCall | undefined;
}

export async function ruleHitsPage(deps: RuleHitsPageDeps, context: ConsoleContext, rule: ContentRule): Promise<PageContent> {
  const { project, zone } = context;
  const id = ruleIdOf(rule);
  const hits = (await deps.ruleHits.count(project.id)).get(id) ?? 0;
  const before = parsePageId(context);
  const ids = (await deps.ruleHits.listCalls(project.id, id, { before, limit: pageSize + 1 })).filter(isUuid);
  const { shown, next } = cutPage(ids, pageSize, (callId) => callId);
  // Only link to recorded calls. If many calls are refused at once, we don't record all of them.
  const [calls, refused] = await deps.readStored(
    () => Promise.all([deps.analytics.callsById(project.id, shown), deps.analytics.recordedRefusals(project.id, shown)]),
    project.id,
  );
  return {
    kind: 'page',
    title: `Hits: ${describeRule(rule)}`,
    breadcrumbs: [{ label: 'Content rules', href: projectPath(context, '/rules') }],
    content: html`<p class="lead">The rule matched in ${formatCount(hits)} ${hits === 1 ? 'call' : 'calls'} in the last ${ruleHitsDays} days. ${
      rule.action === 'block' ? 'It blocks these calls or their responses.' : 'It only observes.'
    } At most the newest ${maxCallsPerHour} calls of an hour are listed. Times are in ${zone}.</p>
${table<Row>({
  caption: 'Calls, newest first',
  rows: shown.map((callId) => ({ id: callId, call: calls.get(callId) })),
  empty: `Calls in which the rule matches are listed here for ${ruleHitsDays} days.`,
  rowHref: (row) => (row.call || refused.has(row.id) ? projectPath(context, `/calls/${row.id}`) : undefined),
  columns: [
    { label: 'Time', value: (row) => time(timeOf(row.id), zone) },
    { label: 'Result', value: ({ call }) => resultOf(call) },
    { label: 'Application', value: ({ call }) => call?.source ?? null },
    { label: 'Model', value: ({ call }) => (call ? html`<code>${call.requestedModel}</code>` : null), grow: true },
  ],
})}${pager(context, next)}`,
  };
}

function resultOf(call: HitCall | undefined) {
  if (call === undefined) return badge('blocked before it reached a vendor', 'warning');
  return call.outcome === 'ok' ? badge(String(call.status), 'good') : badge(`${call.status} ${call.outcome}`, 'warning');
}
