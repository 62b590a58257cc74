/** The rooms of memory, joined, and what its routes get of them. */
import type { Caller } from '../core/call.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import type { FindCaller } from '../http/authenticate.ts';
import { answerDatabaseFaults } from '../http/database-faults.ts';
import type { MemoryRouteDeps } from '../http/routes/memory.ts';
import { createEpisodes } from '../memory/episodes.ts';
import { createGraph } from '../memory/graph.ts';
import { itemJson, removalJson } from '../memory/item-record.ts';
import { createItems, type Writer } from '../memory/items.ts';
import { createSearch, searchJson } from '../memory/search.ts';
import { createMemorySettings } from '../memory/settings.ts';
import { createWakeUp } from '../memory/wake-up.ts';
import type { Logger } from '../observability/logger.ts';

export type Memory = ReturnType<typeof createMemory>;

export function createMemory({ database, clock, logger }: { database: Database; clock: Clock; logger: Logger }) {
  return {
    episodes: createEpisodes({ database }),
    items: createItems({ database, clock }),
    search: createSearch({ database }),
    wakeUp: createWakeUp({ database }),
    findFacts: createGraph({ database }),
    settings: createMemorySettings({ database, clock, logger }),
  };
}

export interface MemoryRouteRooms {
  readonly findCaller: FindCaller;
  readonly memory: Memory;
  /** Runs a query once this process's own records are stored; its faults become answers of the table. */
  readonly read: <Result>(query: () => Promise<Result>) => Promise<Result>;
}

/** What a caller of `POST /v1/memory/search` waits for at most: a vendor for the vector, the database for the rest. */
const searchLimits = { embedLimitMs: 5_000, queryLimitMs: 15_000 };

export function createMemoryRouteDeps({ findCaller, memory, read }: MemoryRouteRooms): MemoryRouteDeps {
  const { episodes, items } = memory;
  return {
    findCaller,
    getEpisode: (projectId, id) => read(() => episodes.get(projectId, id)),
    writeItem: (caller, item) => answerDatabaseFaults(async () => itemJson(await items.write(caller.projectId, item, writerOf(caller)))),
    correctItem: (caller, id, text) =>
      answerDatabaseFaults(async () => itemJson(await items.correct(caller.projectId, id, text, writerOf(caller)))),
    removeItem: (caller, id) => answerDatabaseFaults(async () => removalJson(await items.remove(caller.projectId, id, writerOf(caller)))),
    rateItem: ({ projectId }, id, rating) => answerDatabaseFaults(async () => itemJson(await items.rate(projectId, id, rating))),
    search: ({ projectId }, request) =>
      read(async () => searchJson(await memory.search(request, { projectId, embed: async () => null, ...searchLimits }))),
    wakeUp: ({ projectId }, subject) => read(() => memory.wakeUp(projectId, subject)),
    findFacts: ({ projectId }, query) => answerDatabaseFaults(() => memory.findFacts(projectId, query)),
  };
}

function writerOf({ keyPrefix }: Caller): Writer {
  return { origin: 'agent', author: `key:${keyPrefix}` };
}
