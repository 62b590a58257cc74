/** Says which figures a caller wants. */
import type { CalendarUnit } from '../../core/time-zone.ts';
import { type CallSelection, personSql } from './call-filter.ts';
import type { CostlyFigure } from './figures.ts';

/** The SQL expressions to group by. `provider` and `attempted` are about attempts, and all others are about calls. */
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

/** If we group by this, figures count attempts instead of calls. */
export function isOfAttempts(group: Group | null): boolean {
  return group === 'provider' || group === 'attempted';
}

export type Group = keyof typeof groupColumns;
export const groupNames = Object.keys(groupColumns).filter((name): name is Group => Object.hasOwn(groupColumns, name));

/** Groups are sorted by this. We show the top groups and sum up the rest as "others". */
export type Rank = 'cost' | 'calls' | 'errors' | 'tokens';

export interface FiguresRequest extends CallSelection {
  readonly zone: string;
  readonly unit?: CalendarUnit | null;
  readonly group?: Group | null;
  /** How many groups to show. Defaults to 7, and all others are summed up. */
  readonly top?: number;
  /** Groups are ranked by this. Defaults to `cost`. */
  readonly rank?: Rank;
  readonly costly?: readonly CostlyFigure[];
  /** The number of call rows that we may read. If that isn't enough, we throw `TooManyCalls`. */
  readonly maxRows?: number | undefined;
}

export interface TopRequest extends CallSelection, Pick<FiguresRequest, 'top' | 'rank' | 'maxRows'> {
  /** Set this to leave out calls that have no value for the group. */
  readonly isNamed?: boolean;
}
