import { valueOfSlot } from '../sums.ts';

/** Says how many calls fall into a slot of a histogram. There's a separate histogram for each unit and group. */
export interface SlotRow {
  readonly unit: number | null;
  readonly place: number | null;
  readonly slot: number;
  readonly n: number;
}

const positionOf = (unit: number | null, place: number | null): string => `${unit ?? ''}/${place ?? ''}`;

export type Percentiles = ReadonlyMap<string, readonly number[]>;

export function percentileOf(percentiles: Percentiles, { unit, place }: Pick<SlotRow, 'unit' | 'place'>): readonly number[] | null {
  return percentiles.get(positionOf(unit, place)) ?? null;
}

/** Computes the 50th and 95th percentiles of each unit, each group, each combination of the two, and in total. */
export function toPercentiles(rows: readonly SlotRow[]): Percentiles {
  const histograms = new Map<string, Map<number, number>>();
  for (const { unit, place, slot, n } of rows) {
    for (const position of new Set([positionOf(unit, place), positionOf(unit, null), positionOf(null, place), positionOf(null, null)])) {
      const histogram = histograms.get(position) ?? new Map<number, number>();
      histograms.set(position, histogram.set(slot, n + (histogram.get(slot) ?? 0)));
    }
  }
  return new Map(
    [...histograms].map(([position, histogram]) => {
      const slots = [...histogram].toSorted(([one], [other]) => one - other);
      const total = slots.reduce((sum, [, n]) => sum + n, 0);
      return [position, [0.5, 0.95].map((part) => valueOfSlot(slotAt(slots, part * total)))];
    }),
  );
}

/** Returns the slot that contains the nth fastest call. */
function slotAt(slots: readonly (readonly [number, number])[], number: number): number {
  let counted = 0;
  for (const [slot, n] of slots) {
    counted += n;
    if (counted >= number) return slot;
  }
  return slots.at(-1)?.[0] ?? 0;
}
