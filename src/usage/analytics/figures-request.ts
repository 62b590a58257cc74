/** Requests for figures about calls. */
import type { CalendarUnit } from '../../core/time-zone.ts';
import { type CallSelection, personSql } from './call-filter.ts';
import type { CostlyFigure } from './figures.ts';

/** The SQL expression of each group. `provider` and `attempted` group attempts, and all other groups are of calls. */
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

/** Reports whether the figures of a group count attempts instead of calls. */
export function isOfAttempts(group: Group | null): boolean {
  return group === 'provider' || group === 'attempted';
}

export type Group = keyof typeof groupColumns;
export const groupNames = Object.keys(groupColumns).filter((name): name is Group => Object.hasOwn(groupColumns, name));

/** Groups are ranked by this. We show the top groups and sum up the rest as "others". */
export type Rank = 'cost' | 'calls' | 'errors' | 'tokens';

export interface FiguresRequest extends CallSelection {
  readonly zone: string;
  readonly unit?: CalendarUnit | null;
  readonly group?: Group | null;
  /** The number of groups to return. The rest are summed up in one group. The default is 7. */
  readonly top?: number;
  /** The default is `cost`. */
  readonly rank?: Rank;
  readonly costly?: readonly CostlyFigure[];
  /** The maximum number of call rows to read. We throw `TooManyCalls` if it takes more. */
  readonly maxRows?: number | undefined;
}

export interface TopRequest extends CallSelection, Pick<FiguresRequest, 'top' | 'rank' | 'maxRows'> {
  /** Leaves out the calls that have no value for the group. */
  readonly isNamed?: boolean;
}
