/** What is requested of the figures of calls. */
import type { CalendarUnit } from '../../core/time-zone.ts';
import type { CallSelection } from './call-filter.ts';
import type { CostlyFigure } from './figures.ts';

/** SQL of the groups. `provider` groups attempts, all others calls. */
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
} as const;

export type Group = keyof typeof groupColumns;
export const groupNames = Object.keys(groupColumns).filter((name): name is Group => Object.hasOwn(groupColumns, name));

/** What decides which groups are shown and which are summed up as others. */
export type Rank = 'cost' | 'calls' | 'errors' | 'tokens';

export interface FiguresRequest extends CallSelection {
  readonly zone: string;
  readonly unit?: CalendarUnit | null;
  readonly group?: Group | null;
  /** Number of groups; the rest is one group. Default: 7. */
  readonly top?: number;
  /** Default: `cost`. */
  readonly rank?: Rank;
  readonly costly?: readonly CostlyFigure[];
  /** Throws `TooManyCalls` when more call rows would have to be read. */
  readonly maxRows?: number | undefined;
}

export interface TopRequest extends CallSelection, Pick<FiguresRequest, 'top' | 'rank' | 'maxRows'> {
  /** Without the group of calls that have no value. */
  readonly isNamed?: boolean;
}
