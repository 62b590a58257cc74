/** Defines what a request for figures can ask for, e.g. how to group and rank calls. */
import type { CalendarUnit } from '../../core/time-zone.ts';
import { type CallSelection, personSql } from './call-filter.ts';
import type { CostlyFigure } from './figures.ts';

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

/** Returns true if the figures count attempts instead of calls, because only attempts have the grouping attribute. */
export function isOfAttempts(group: Group | null): boolean {
  return group === 'provider' || group === 'attempted';
}

export type Group = keyof typeof groupColumns;
export const groupNames = Object.keys(groupColumns).filter((name): name is Group => Object.hasOwn(groupColumns, name));

/** Says how groups are ranked. All groups except the top ones are summed up as "others". */
export type Rank = 'cost' | 'calls' | 'errors' | 'tokens';

export interface FiguresRequest extends CallSelection {
  readonly zone: string;
  readonly unit?: CalendarUnit | null;
  readonly group?: Group | null;
  /** How many groups to show (7 by default). All other groups are summed up. */
  readonly top?: number;
  readonly rank?: Rank;
  readonly costly?: readonly CostlyFigure[];
  readonly maxRows?: number | undefined;
}

export interface TopRequest extends CallSelection, Pick<FiguresRequest, 'top' | 'rank' | 'maxRows'> {
  /** Leaves out calls that have no value for the group. */
  readonly isNamed?: boolean;
}
