/** Compares the calls that try a canary with the other calls of the same tier. */
import type { Analytics } from '../../usage/analytics/analytics.ts';
import type { Figures } from '../../usage/analytics/figures.ts';
import { share } from '../../usage/analytics/metrics.ts';
import { parseRange } from '../../usage/analytics/range.ts';
import { TooManyCalls } from '../../usage/analytics/row-limit.ts';
import type { VoteCounts } from '../../usage/analytics/vote-counts.ts';
import { emptyState, formatCount, formatDuration, formatPercent, formatUsd, section, table } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageResult } from '../frame/route.ts';
import { orTooMany, rowLimit, tooManyCalls } from '../frame/row-limit.ts';
import { rangePicker, rangeQuery } from '../frame/time-range.ts';

export interface CanaryOfTier {
  readonly tier: string;
  readonly model: string;
  /** The share of the tier's conversations that are routed to the canary, between 0 and 1. */
  readonly share: number;
}

export interface CanaryPageDeps {
  readonly analytics: Pick<Analytics, 'figures' | 'refusedCounts' | 'refusedByUnit' | 'votes'>;
  readonly canaries: () => readonly CanaryOfTier[];
}

type Side = 'canary' | 'control';

const costly = ['latency', 'firstChunk', 'failovers'] as const;

export async function showCanaries({ analytics, canaries }: CanaryPageDeps, context: ConsoleContext): Promise<PageResult> {
  const { project, zone, now, url, signal } = context;
  const range = parseRange(url.searchParams, { zone, now });
  const read = async (side: Side, tier: string): Promise<SideReport> => {
    const selection = { projectId: project.id, from: range.from, to: range.to, filter: { [side]: tier, own: 'hide' }, signal } as const;
    const { total } = await analytics.figures({ ...selection, zone, costly, ...rowLimit(context) });
    return { ...total, votes: await analytics.votes(selection) };
  };
  const sections: Html[] = [];
  for (const canary of canaries()) {
    const reports = await orTooMany(Promise.all([read('canary', canary.tier), read('control', canary.tier)]));
    const content = reports instanceof TooManyCalls ? tooManyCalls(context, range, reports) : comparison(context, canary, reports);
    const hint = html`<code>${canary.model}</code> is tried first in ${formatPercent(canary.share)} of the conversations.`;
    sections.push(section(`Tier ${canary.tier}`, content, { hint }));
  }
  const empty = emptyState('No tier has a canary', 'Canaries are configured in gateway.yaml, with a model and a share for each tier.');
  return {
    kind: 'page',
    title: 'Canaries',
    breadcrumbs: [{ label: 'Explore', href: projectPath(context, '/explore') }],
    content: html`${rangePicker(context, range)}${sections.length === 0 ? empty : sections}`,
  };
}

interface SideReport extends Figures {
  readonly votes: VoteCounts;
}

interface ComparedFigure {
  readonly label: string;
  readonly value: (report: SideReport) => string;
}

const duration = (label: string, name: 'latency' | 'firstChunk', part: 'p50' | 'p95'): ComparedFigure => ({
  label,
  value: (figures) => formatDuration(figures[name]?.[part] ?? null),
});

const comparedFigures: readonly ComparedFigure[] = [
  { label: 'Error rate', value: ({ errors, calls }) => formatPercent(share(errors, calls)) },
  { label: 'Calls with a failover', value: ({ failovers, calls }) => formatPercent(share(failovers, calls)) },
  {
    label: 'Cost per call',
    value: ({ costNanos, calls, unpriced }) => formatUsd(share(Number(costNanos), calls - unpriced)),
  },
  duration('Time to first chunk, median', 'firstChunk', 'p50'),
  duration('Time to first chunk, 95th percentile', 'firstChunk', 'p95'),
  duration('Latency, median', 'latency', 'p50'),
  duration('Latency, 95th percentile', 'latency', 'p95'),
  { label: 'Ratings of recalled memories', value: ({ votes }) => formatVotes(votes) },
  { label: 'Output tokens per call', value: ({ tokens, calls }) => formatCount(Math.round(tokens.output / Math.max(1, calls))) },
];

function formatVotes({ useful, wrong }: VoteCounts): string {
  return useful + wrong === 0 ? '–' : `${formatCount(useful)} useful, ${formatCount(wrong)} wrong`;
}

function comparison(context: ConsoleContext, { tier }: CanaryOfTier, [canary, control]: readonly [SideReport, SideReport]): Html {
  const calls = (side: Side, figures: Figures): Html =>
    html`<a href="${projectPath(context, '/calls', { ...rangeQuery(context), [side]: tier })}">${formatCount(figures.calls)}</a>`;
  const rows = comparedFigures.map(({ label, value }) => ({ label, canary: value(canary), control: value(control) }));
  return table<{ readonly label: string; readonly canary: Html | string; readonly control: Html | string }>({
    caption: `The canary and the other calls of the tier ${tier}`,
    rows: [{ label: 'Calls', canary: calls('canary', canary), control: calls('control', control) }, ...rows],
    columns: [
      { label: 'Figure', value: ({ label }) => label, grow: true },
      { label: 'Canary', align: 'end', value: (row) => row.canary },
      { label: 'Rest of the tier', align: 'end', value: (row) => row.control },
    ],
  });
}
