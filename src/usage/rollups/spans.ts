/** Splits periods of time into segments that have stored sums and edges that don't. */
import { dayMs, hourMs, minuteMs, monthAt } from '../../core/time.ts';
import type { Period } from '../analytics/range.ts';

/** The length of time that a stored sum covers. Days and months are in UTC. */
export type Span = keyof typeof lengths | 'month';

export interface Segment extends Period {
  readonly span: Span;
}

export interface Cover {
  /** The time that's covered by stored sums. Adjacent spans of the same length are merged into one segment. */
  readonly segments: readonly Segment[];
  /** The time that isn't covered by stored sums, so we have to read call rows for it. */
  readonly edges: readonly Period[];
}

const lengths = { quarter: 15 * minuteMs, hour: hourMs, day: dayMs } as const;

/**
 * Splits adjacent periods into segments and edges. It uses the longest spans that don't go beyond the end of a period.
 * @param spans the kinds of spans, from coarse to fine
 * @param isStored returns false if the sum for a span is missing or outdated
 */
export function coverPeriods(
  periods: readonly Period[],
  spans: readonly [...Span[], Span],
  isStored: (span: Span, at: number) => boolean = () => true,
): Cover {
  const [finest] = spans.slice(-1) as [Span];
  const segments: Segment[] = [];
  const edges: Period[] = [];
  for (const period of periods) {
    for (let at = period.from; at < period.to; ) {
      const span = spans.find((name) => startOf(name, at) === at && endOf(name, at) <= period.to && isStored(name, at));
      const to = Math.min(period.to, endOf(span ?? finest, at));
      if (span === undefined) addPeriod(edges, { from: at, to });
      else if (segments.at(-1)?.span === span) addPeriod(segments, { span, from: at, to });
      else segments.push({ span, from: at, to });
      at = to;
    }
  }
  return { segments, edges };
}

function addPeriod<Item extends Period>(items: Item[], added: Item): void {
  const last = items.at(-1);
  if (last?.to === added.from) items[items.length - 1] = { ...last, to: added.to };
  else items.push(added);
}

export function joinAdjacent(periods: readonly Period[]): Period[] {
  const joined: Period[] = [];
  for (const { from, to } of periods) addPeriod(joined, { from, to });
  return joined;
}

/** Splits segments into single spans. If an index has the start before the name, this makes lookups faster. */
export function splitSegments(segments: readonly Segment[]): Segment[] {
  return segments.flatMap(({ span, from, to }) => {
    const spans: Segment[] = [];
    for (let at = from; at < to; at = endOf(span, at)) spans.push({ span, from: at, to: endOf(span, at) });
    return spans;
  });
}

function startOf(span: Span, at: number): number {
  return span === 'month' ? monthAt(at).start : at - (at % lengths[span]);
}

function endOf(span: Span, at: number): number {
  return span === 'month' ? monthAt(at).end : startOf(span, at) + lengths[span];
}
