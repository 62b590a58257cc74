/**
 * The two views of `/my-key`: a form for entering a key, and the usage of that key. Neither shows texts of calls or
 * anything about other keys.
 */
import type { KeyRecord } from '../../keys/key-record.ts';
import type { Project } from '../../projects/projects.ts';
import type { CallPage, CallSummary } from '../../usage/analytics/call-list.ts';
import type { Figures } from '../../usage/analytics/figures.ts';
import type { FiguresReport } from '../../usage/analytics/read-figures.ts';
import type { StatusReport } from '../../usage/status.ts';
import {
  actionButton,
  badge,
  barChart,
  card,
  codeBlock,
  csvLink,
  definitions,
  equalUsd,
  form,
  formatCount,
  formatDuration,
  formatUsd,
  meter,
  notice,
  pager,
  section,
  shellQuote,
  stats,
  table,
  textField,
  time,
  total,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';

export const myKeyPath = '/my-key';

export function pasteView(context: ConsoleContext, error?: string): PageContent {
  const field = textField({
    name: 'key',
    label: 'Virtual key',
    type: 'password',
    required: true,
    autocomplete: 'off',
    placeholder: 'sk-gw-…',
    hint: 'The key is sent to this gateway once, and is not stored. You are signed out after an hour.',
    error,
    autofocus: true,
  });
  return {
    kind: 'page',
    title: 'Key usage',
    content: html`<p>Paste your virtual key to see its spend, what is left of its ceilings, and its calls.</p>
${card(form({ context, action: myKeyPath, fields: [field], submit: 'Show usage' }))}`,
  };
}

export interface KeyViewInput {
  readonly context: ConsoleContext;
  readonly record: KeyRecord;
  readonly project: Project;
  readonly zone: string;
  /** When the pass expires, so that people have to enter their key again. */
  readonly endsAt: number;
  readonly status: StatusReport;
  readonly month: Figures;
  readonly days: FiguresReport;
  readonly page: CallPage;
}

export function keyView({ context, record, project, zone, endsAt, status, month, days, page }: KeyViewInput): PageContent {
  const { credit } = status;
  return {
    kind: 'page',
    title: record.name,
    actions: actionButton({ context, action: `${myKeyPath}/close`, label: 'Close', about: 'the view of this key' }),
    content: html`<div class="stack wide">
<p class="muted">Key <code>${record.prefix}</code> of the project ${project.name}. This view ends at ${time(endsAt, zone, 'minute')} (${zone}).</p>
${credit.state === 'ok' ? '' : notice(creditNotice(credit.state), credit.state === 'exhausted' ? 'bad' : 'warning')}
${stats([
  { label: 'Spend this month', value: total(month.costNanos), hint: unpricedHint(month) },
  { label: 'Calls this month', value: formatCount(month.calls) },
  { label: 'Errors this month', value: formatCount(month.errors) },
  { label: 'Median latency', value: formatDuration(month.latency?.p50 ?? null), hint: 'successful calls of this month' },
])}
${section('Ceilings', card(ceilings(status, zone)), { hint: `Windows are in UTC; times are in ${zone}.` })}
${section(
  'Spend by day',
  card(
    barChart({
      title: 'Spend by day',
      zone,
      unit: 'day',
      series: [{ name: 'Spend' }],
      format: formatUsd,
      buckets: days.units.map(({ start, figures }) => ({ start, values: [Number(figures.costNanos)] })),
    }),
  ),
)}
${section('Key', card(facts(record, zone)))}
${section('Try it', codeBlock(curlLine(context, record), 'A call with this key'), { hint: html`Set <code>GATEWAY_KEY</code> to your key first.` })}
${section('Calls', html`${callTable(page.calls, zone)}${pager(context, page.next)}`, { actions: csvLink(context), hint: `Newest first. Times in ${zone}.` })}
</div>`,
  };
}

function creditNotice(state: 'near_cap' | 'exhausted'): string {
  return state === 'exhausted'
    ? 'The project has reached its monthly cap: calls are refused until the next month.'
    : 'The project is close to its monthly cap.';
}

function unpricedHint({ unpriced }: Figures): string {
  return unpriced === 0 ? 'calls with this key' : `without ${formatCount(unpriced)} calls of unknown price`;
}

const ceilingNames = [
  ['calls', 'Calls'],
  ['cost', 'Cost'],
  ['rpm', 'Calls per minute'],
  ['tpm', 'Tokens per minute'],
] as const;

const windowNames = { minute: 'this minute', day: 'today (UTC)', month: 'this month (UTC)', total: 'in all' } as const;

function ceilings({ key }: StatusReport, zone: string): Html {
  return definitions(
    ceilingNames.map(([name, label]) => {
      const { limit, used, reserved, remaining, window, resets_at: resetsAt } = key.ceilings[name];
      const format = (amount: number): string => (name === 'cost' ? formatUsd(Math.round(amount * 1e9)) : formatCount(amount));
      if (limit === null || remaining === null) return [label, html`${badge('No limit')} ${format(used)} ${windowNames[window]}`];
      const text = html`${format(used)} of ${format(limit)} ${windowNames[window]}, <strong>${format(remaining)} left</strong>${
        reserved > 0 ? html`, ${format(reserved)} held by running calls` : ''
      }${resetsAt === null || window === 'minute' ? '' : html`; resets ${time(Date.parse(resetsAt), zone, 'minute')}`}`;
      return [label, meter({ label, value: used + reserved, max: limit, text })];
    }),
  );
}

function facts({ models, requiredTags, expiresAt, createdAt }: KeyRecord, zone: string): Html {
  return definitions([
    ['Models', models === null ? 'All models of the project' : html`${models.map((model) => html`<code>${model}</code> `)}`],
    ...(requiredTags.length === 0 ? [] : [['Required tags of providers', requiredTags.join(', ')] as const]),
    ['Expires', expiresAt === null ? 'Never' : html`${time(expiresAt, zone, 'minute')} (${zone})`],
    ['Issued', html`${time(createdAt, zone, 'minute')} (${zone})`],
  ]);
}

function curlLine({ origin }: ConsoleContext, { models }: KeyRecord): string {
  const body = JSON.stringify({ model: models?.[0] ?? 'standard', messages: [{ role: 'user', content: 'Hello, gateway!' }] });
  return `curl ${origin}/v1/chat/completions -H "authorization: Bearer $GATEWAY_KEY" -H 'content-type: application/json' -d ${shellQuote(body)}`;
}

function callTable(calls: readonly CallSummary[], zone: string): Html {
  const money = equalUsd(calls.map(({ costNanos }) => costNanos));
  return table({
    caption: 'Calls',
    empty: 'No calls with this key yet.',
    rows: calls,
    columns: [
      { label: 'Time', value: ({ startedAt }) => time(startedAt, zone) },
      { label: 'Route', value: ({ route }) => route, wideOnly: true },
      {
        label: 'Model',
        value: ({ model, requestedModel, cache }) => html`${model ?? requestedModel}${cache === 'hit' ? html` ${badge('cache')}` : ''}`,
      },
      { label: 'Status', value: ({ status, code, outcome }) => badge(code ?? String(status), outcome === 'ok' ? 'good' : 'bad') },
      { label: 'Tokens', align: 'end', value: (call) => formatCount(call.input + call.cachedInput + call.cacheWrite + call.output) },
      { label: 'Cost', align: 'end', value: ({ costNanos }) => money(costNanos) },
      { label: 'Duration', align: 'end', value: ({ durationMs }) => formatDuration(durationMs), wideOnly: true },
    ],
  });
}
