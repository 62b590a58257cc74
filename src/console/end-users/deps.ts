import type { Queries } from '../../db/database.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';

export interface EndUserDeps {
  readonly queries: Queries;
  readonly analytics: Pick<Analytics, 'subjectCalls' | 'subjectUse'>;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
}
