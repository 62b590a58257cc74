import type { ConsoleRoute } from '../frame/route.ts';
import { createGraphRoutes, type GraphDeps } from './graph.ts';
import { createMemoryDetailRoutes, type MemoryDetailDeps } from './memory-detail.ts';
import { createMemoryListRoutes, type MemoryListDeps } from './memory-list.ts';
import { createNewMemoryRoutes, type NewMemoryDeps } from './new-memory.ts';
import { createPagesRoutes, type PagesDeps } from './pages.ts';
import { createRecallRoutes, type RecallPageDeps } from './recall.ts';

export type MemoryPagesDeps = MemoryListDeps & NewMemoryDeps & RecallPageDeps & MemoryDetailDeps & PagesDeps & GraphDeps;

export function createMemoryPagesRoutes(deps: MemoryPagesDeps): readonly ConsoleRoute[] {
  return [
    ...createMemoryListRoutes(deps),
    ...createNewMemoryRoutes(deps),
    ...createRecallRoutes(deps),
    ...createMemoryDetailRoutes(deps),
    ...createPagesRoutes(deps),
    ...createGraphRoutes(deps),
  ];
}
