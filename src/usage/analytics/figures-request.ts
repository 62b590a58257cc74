/** What callers can request figures for. */
import type { CalendarUnit } from '../../core/time-zone.ts';
import { type CallSelection, personSql } from './call-filter.ts';
import type { CostlyFigure } from './figures.ts';

/**
 * The SQL expression for each kind of group. With `provider` and `attempted` we group attempts, and with all others we
 * group calls.
 */
export const groupColumns = {
  model: 'c.model',
  source: 'c.source',
  task: 'c.task_id',
  key: 'c.key_prefix',
  route: 'c.route',
  status: 'c.status::text',
  code: 'c.code',
  outcome: 'c.outcome',
  provider: 'a.provider',
  attempted: `(a.provider || '/' || a.model)`,
  subject: `encode(c.subject_sha256, 'hex')`,
  person: personSql,
} as const;

/** Returns true if figures for this kind of group count attempts instead of calls. */
export function isOfAttempts(group: Group | null): boolean {
  return group === 'provider' || group === 'attempted';
}

export type Group = keyof typeof groupColumns;
export const groupNames = Object.keys(groupColumns).filter((name): name is Group => Object.hasOwn(groupColumns, name));

/** What we sort groups by. The top groups are shown, and the rest is summed up as "others". */
export type Rank = 'cost' | 'calls' | 'errors' | 'tokens';

export interface FiguresRequest extends CallSelection {
  readonly zone: string;
  readonly unit?: CalendarUnit | null;
  readonly group?: Group | null;
  /** Groups to show, 7 by default. All others are summed up. */
  readonly top?: number;
  /** The figure that ranks the groups. Defaults to `cost`. */
  readonly rank?: Rank;
  readonly costly?: readonly CostlyFigure[];
  /** How many call rows we read at most. If that isn't enough, we throw `TooManyCalls`. */
  readonly maxRows?: number | undefined;
}

export interface TopRequest extends CallSelection, Pick<FiguresRequest, 'top' | 'rank' | 'maxRows'> {
  /** If true, calls that have no value for the group are left out. */
  readonly isNamed?: boolean;
}
