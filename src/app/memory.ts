/** Creates the parts of the memory module, and connects its routes to them. */
import type { Caller } from '../core/call.ts';
import type { FindCaller } from '../http/authenticate.ts';
import type { BodyMemory } from '../http/body-memory.ts';
import { mapDatabaseErrors } from '../http/database-errors.ts';
import type { MemoryRouteDeps } from '../http/routes/memory.ts';
import { createCloseIdle } from '../memory/conversations/close-idle.ts';
import { createEpisodes } from '../memory/conversations/episodes.ts';
import { createErase, type EraseRequest, type Erasure } from '../memory/erasure/erase.ts';
import { createReceipt, type ErasureSummary, type LocalPurge } from '../memory/erasure/erasure-report.ts';
import { createPassageEmbedder } from '../memory/indexing/embed-passages.ts';
import { createItems, type Writer } from '../memory/items/items.ts';
import { createRateRecalled } from '../memory/items/rate-recalled.ts';
import { createExportMemory } from '../memory/portability/export-memory.ts';
import { createImportMemory } from '../memory/portability/import-memory.ts';
import { createRecall } from '../memory/recall/recall.ts';
import { createWakeUp } from '../memory/recall/wake-up.ts';
import { createMemorySettings } from '../memory/records/settings.ts';
import { createGraph } from '../memory/search/graph.ts';
import { createSearch, type EmbedText, type SearchRequest, type SearchResult } from '../memory/search/search.ts';
import { backgroundCaller, type MemoryProject } from '../pipeline/call/internal-call.ts';
import { type Embedder, isTextRejected } from '../pipeline/internal/embedder.ts';
import type { Reranker } from '../pipeline/internal/reranker.ts';
import type { AppBase } from './base.ts';
import type { Learning } from './learning.ts';

export type Memory = ReturnType<typeof createMemory>;

interface MemoryDeps extends Pick<AppBase, 'database' | 'clock' | 'logger'> {
  readonly embedder: Embedder;
  readonly reranker: Reranker;
  readonly findProject: (projectId: string) => Promise<MemoryProject>;
  readonly recallDeadlineMs: () => number;
}

/** How long background work waits for embeddings. It's generous because no caller is waiting. */
const backgroundTimeoutMs = 60_000;

/** Limits how long a search waits for the embedding of its query, and how long it waits for the database. */
const searchTimeouts = { embedTimeoutMs: 5_000, queryTimeoutMs: 15_000 };

export function createMemory({ database, clock, logger, embedder, reranker, findProject, recallDeadlineMs }: MemoryDeps) {
  const search = createSearch({ database });
  const settings = createMemorySettings({ database, clock, logger });
  /**
   * Embeds a text on behalf of a caller. Set `isExemptFromCallCeiling` if it's for a call that has already been
   * counted. Returns null if the project has no route for embeddings.
   */
  const embedFor =
    (caller: Caller, limitMs: number, forCall: { readonly isExemptFromCallCeiling?: true } = {}): EmbedText =>
    async (text) => {
      const project = await findProject(caller.projectId);
      if (embedder.getModel(project.settings) === null) return null;
      const { model, vectors } = await embedder.embed({ caller, project, texts: [text], purpose: 'query', timeoutMs: limitMs, ...forCall });
      return vectors[0] ? { model, values: vectors[0] } : null;
    };
  const searchAs = (caller: Caller, request: SearchRequest): Promise<SearchResult> =>
    search(request, { projectId: caller.projectId, embed: embedFor(caller, searchTimeouts.embedTimeoutMs), ...searchTimeouts });
  const embeddingModelOf = async (projectId: string): Promise<string | null> => embedder.getModel((await findProject(projectId)).settings);
  const { recall, explain: explainRecall } = createRecall({
    readSettings: (projectId) => settings.get(projectId),
    embed: (text, { caller, timeoutMs, isPartOfCall }) =>
      embedFor(caller, timeoutMs, isPartOfCall ? { isExemptFromCallCeiling: true } : {})(text),
    findReranker: async (projectId) => {
      const project = await findProject(projectId);
      if (!reranker.hasRoute(project.settings)) return null;
      return (query, texts, { caller, timeoutMs, isPartOfCall }) =>
        reranker.rerank({ caller, project, query, texts, timeoutMs, ...(isPartOfCall && { isExemptFromCallCeiling: true }) });
    },
    findMemories: async ({ projectId, subject, text, vector, limit, includesRatedWrong, timeoutMs: limitMs }) => {
      const request = { query: text, subject, limit, kinds: [], include: ['memories' as const], min_score: 0 };
      const limits = { embedTimeoutMs: limitMs, queryTimeoutMs: limitMs, recalledOnly: !includesRatedWrong };
      const { memories } = await search(request, { projectId, embed: async () => vector, ...limits });
      return memories;
    },
    deadlineMs: recallDeadlineMs,
    logger,
  });
  return {
    embedFor,
    embeddingModelOf,
    recall,
    explainRecall,
    embedPassages: createPassageEmbedder({
      database,
      clock,
      getModel: embeddingModelOf,
      embed: async (projectId, texts) =>
        embedder.embed({
          caller: backgroundCaller(projectId),
          project: await findProject(projectId),
          texts,
          purpose: 'passage',
          timeoutMs: backgroundTimeoutMs,
        }),
      isTextRejected,
    }),
    episodes: createEpisodes({ database }),
    closeIdle: createCloseIdle({ database }),
    exportMemory: createExportMemory({ database }),
    importMemory: createImportMemory({ database, clock }),
    items: createItems({ database, clock }),
    rateRecalled: createRateRecalled({ database, clock }),
    searchAs,
    wakeUp: createWakeUp({ database }),
    findFacts: createGraph({ database }),
    erase: createErase({ database, clock }),
    settings,
  };
}

export type EraseSubject = (request: EraseRequest) => Promise<ErasureSummary>;

interface EraserDeps {
  readonly memory: Memory;
  /**
   * Clears an erased subject from the caches and running calls of this process, without waiting for the notification.
   */
  readonly applyErasure: (erasure: Erasure) => LocalPurge;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
}

export function createSubjectEraser({ memory, applyErasure, readStored }: EraserDeps): EraseSubject {
  return (request) =>
    readStored(async () => {
      const erasure = await memory.erase(request);
      return createReceipt(erasure, applyErasure(erasure));
    }, request.projectId);
}

interface MemoryApiDeps {
  readonly remember: Learning['remember'];
  readonly findCaller: FindCaller;
  readonly bodyMemory: BodyMemory;
  readonly memory: Memory;
  readonly eraseSubject: EraseSubject;
  /** Runs a query after this process has stored the project's calls, and maps database errors to API errors. */
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
}

export function createMemoryRouteDeps(deps: MemoryApiDeps): MemoryRouteDeps {
  const { findCaller, bodyMemory, memory, remember, eraseSubject, readStored } = deps;
  const { episodes, items } = memory;
  return {
    findCaller,
    bodyMemory,
    getEpisode: (projectId, id) => readStored(() => episodes.get(projectId, id), projectId),
    remember: ({ projectId }, id, focus) => readStored(() => remember(projectId, id, focus), projectId),
    writeItem: (caller, item) => mapDatabaseErrors(() => items.write(caller.projectId, item, toWriter(caller))),
    correctItem: (caller, id, text) => mapDatabaseErrors(() => items.correct(caller.projectId, id, text, toWriter(caller))),
    removeItem: (caller, id) => mapDatabaseErrors(() => items.remove(caller.projectId, id, toWriter(caller))),
    rateItem: ({ projectId, quotaKeyId }, id, { rating, call_id: callId, memories }) => {
      const voter = `key:${quotaKeyId}`;
      if (callId === null) return mapDatabaseErrors(() => items.rate(projectId, id, rating, voter));
      const others = memories.map((other) => ({ itemId: other.id, rating: other.rating }));
      return readStored(() => memory.rateRecalled({ projectId, callId, voter, id, rating, others }), projectId);
    },
    search: (caller, request) => readStored(() => memory.searchAs(caller, request), caller.projectId),
    explainRecall: (caller, request) => mapDatabaseErrors(() => memory.explainRecall({ caller, ...request })),
    wakeUp: ({ projectId }, subject) => readStored(() => memory.wakeUp(projectId, subject), projectId),
    eraseSubject: (caller, subject) => eraseSubject({ projectId: caller.projectId, subject, askedBy: toWriter(caller).author }),
    findFacts: ({ projectId }, query) => mapDatabaseErrors(() => memory.findFacts(projectId, query)),
  };
}

function toWriter({ keyPrefix }: Caller): Writer {
  return { origin: 'agent', author: `key:${keyPrefix}` };
}
