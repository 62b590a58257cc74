import type { Queries } from '../../db/database.ts';
import type { createItems } from '../../memory/items/items.ts';
import type { DryRunRequest } from '../../memory/recall/dry-run.ts';
import type { RecallExplanation } from '../../memory/recall/recall.ts';
import type { createGraph } from '../../memory/search/graph.ts';
import type { SearchRequest, SearchResult } from '../../memory/search/search.ts';
import type { FindNames } from '../frame/author.ts';

export interface MemoryPagesDeps {
  readonly queries: Queries;
  readonly items: ReturnType<typeof createItems>;
  readonly search: (projectId: string, request: SearchRequest) => Promise<SearchResult>;
  readonly explainRecall: (projectId: string, request: DryRunRequest) => Promise<RecallExplanation>;
  readonly findFacts: ReturnType<typeof createGraph>;
  readonly findNames: FindNames;
}
