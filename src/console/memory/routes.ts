import type { ConsoleRoute } from '../frame/route.ts';
import type { MemoryPagesDeps } from './deps.ts';
import { createGraphRoutes } from './graph.ts';
import { createMemoryDetailRoutes } from './memory-detail.ts';
import { createMemoryListRoutes } from './memory-list.ts';
import { createNewMemoryRoutes } from './new-memory.ts';
import { createPagesRoutes } from './pages.ts';
import { createRecallRoutes } from './recall.ts';

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
