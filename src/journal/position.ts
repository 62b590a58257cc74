/** A place in the journal of a process. */
export interface Position {
  readonly segment: number;
  readonly offset: number;
}

export function isBefore(one: Position, other: Position): boolean {
  return one.segment < other.segment || (one.segment === other.segment && one.offset < other.offset);
}
