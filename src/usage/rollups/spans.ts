/** Splits periods into whole spans of the rollups, and what is left at their ends. Pure. */
import { dayMs, hourMs, minuteMs, monthAt } from '../../core/time.ts';
import type { Period } from '../analytics/range.ts';

/** A row of the rollups counts the calls of a quarter of an hour, a day or a month, in UTC. */
export type Span = 'quarter' | 'day' | 'month';

export interface Segment<Name extends string = Span> extends Period {
  readonly span: Name;
}

export interface Cover<Name extends string = Span> {
  /** Whole spans; adjacent ones of the same span are one segment. */
  readonly segments: readonly Segment<Name>[];
  /** No whole span: these are read from the call rows. */
  readonly edges: readonly Period[];
}

const lengths = { quarter: 15 * minuteMs, hour: hourMs, day: dayMs } as const;

/** Coarse to fine. */
export const allSpans: readonly Span[] = ['month', 'day', 'quarter'];
/** Tasks are many, and most of them are short. */
export const taskSpans: readonly Span[] = ['month', 'day'];

/** Covers adjacent periods such that no segment crosses a border between them. */
export function coverPeriods(periods: readonly Period[], spans: readonly Span[]): Cover {
  const segments: Segment[] = [];
  const edges: Period[] = [];
  const addSegment = (segment: Segment): void => {
    const last = segments.at(-1);
    if (last?.span === segment.span && last.to === segment.from) segments[segments.length - 1] = { ...last, to: segment.to };
    else segments.push(segment);
  };
  const addEdge = (edge: Period): void => {
    const last = edges.at(-1);
    if (last?.to === edge.from) edges[edges.length - 1] = { ...last, to: edge.to };
    else edges.push(edge);
  };
  const cover = ({ from, to }: Period, [span, ...finer]: readonly Span[]): void => {
    if (from >= to) return;
    if (span === undefined) {
      addEdge({ from, to });
      return;
    }
    const first = ceilTo(span, from);
    const end = floorTo(span, to);
    if (first >= end) {
      cover({ from, to }, finer);
      return;
    }
    cover({ from, to: first }, finer);
    addSegment({ span, from: first, to: end });
    cover({ from: end, to }, finer);
  };
  for (const period of periods) cover(period, spans);
  return { segments, edges };
}

/** The whole spans of segments one by one, for an index in which the start is followed by the name. */
export function splitSegments<Name extends keyof typeof lengths | 'month'>(segments: readonly Segment<Name>[]): Segment<Name>[] {
  return segments.flatMap(({ span, from, to }) => {
    const spans: Segment<Name>[] = [];
    for (let at = from; at < to; at = ceilTo(span, at + 1)) spans.push({ span, from: at, to: ceilTo(span, at + 1) });
    return spans;
  });
}

function floorTo(span: keyof typeof lengths | 'month', at: number): number {
  return span === 'month' ? monthAt(at).start : Math.floor(at / lengths[span]) * lengths[span];
}

function ceilTo(span: keyof typeof lengths | 'month', at: number): number {
  const floor = floorTo(span, at);
  if (floor === at) return at;
  return span === 'month' ? monthAt(at).end : floor + lengths[span];
}
