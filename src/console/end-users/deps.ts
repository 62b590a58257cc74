import type { Queries } from '../../db/database.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';

export interface EndUserDeps {
  readonly queries: Queries;
  readonly analytics: Pick<Analytics, 'subjectCalls' | 'subjectUse'>;
  /** Returns end users by the hash that calls contain. Those whose text isn't stored are missing. */
  readonly findSubjects: (projectId: string, hashes: readonly string[]) => Promise<ReadonlyMap<string, string>>;
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
}
