import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import type { Queries } from '../../db/database.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import type { FilterChoices } from '../frame/call-filters.ts';
import type { ConsoleContext } from '../frame/route.ts';

export interface CallsDeps {
  readonly queries: Queries;
  readonly analytics: Analytics;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
  readonly filterChoices: (context: ConsoleContext) => Promise<FilterChoices>;
  readonly listKeys: (projectId: string) => Promise<readonly KeyRecord[]>;
  readonly readCounters: ReadCounters;
}
