/** Splits periods into whole spans, for which sums are stored, and the rest at their ends. Pure. */
import { dayMs, hourMs, minuteMs, monthAt } from '../../core/time.ts';
import type { Period } from '../analytics/range.ts';

/** A stored sum has the calls of one span, in UTC. */
export type Span = keyof typeof lengths | 'month';

export interface Segment extends Period {
  readonly span: Span;
}

export interface Cover {
  /** Whole spans; adjacent ones of the same span are one segment. */
  readonly segments: readonly Segment[];
  /** Parts without a stored sum, which are read from the call rows. */
  readonly edges: readonly Period[];
}

const lengths = { quarter: 15 * minuteMs, hour: hourMs, day: dayMs } as const;

/**
 * Covers adjacent periods such that no segment crosses a border between them.
 * @param spans coarse to fine
 * @param isStored returns false for a span whose sum is missing or outdated
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

/** Adds a period to the last one if they are adjacent. */
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

/** The whole spans of segments one by one, for an index in which the start is followed by the name. */
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

/** The end of the span that contains this time. */
function endOf(span: Span, at: number): number {
  return span === 'month' ? monthAt(at).end : startOf(span, at) + lengths[span];
}
