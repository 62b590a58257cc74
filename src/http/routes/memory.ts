/**
 * The memory routes (docs/api/reference.md#memory). The key determines the project. If the content type, size or syntax
 * is wrong, we send a plain-text error. If a body doesn't match the schema, search, recall and graph send a plain-text
 * 422, and the other routes send `bad_request`.
 */
import type { NextFunction, Request, Response } from 'express';
import type { Caller } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { isSubject } from '../../core/subject.ts';
import type { Episode } from '../../memory/conversations/episodes.ts';
import type { ErasureSummary } from '../../memory/erasure/erasure-report.ts';
import type { NewItem, RatingRequest } from '../../memory/items/item-schemas.ts';
import type { RememberReceipt } from '../../memory/learning/remember.ts';
import type { DryRunRequest } from '../../memory/recall/dry-run.ts';
import type { RecallExplanation } from '../../memory/recall/recall.ts';
import type { WakeUp } from '../../memory/recall/wake-up.ts';
import type { Item } from '../../memory/records/item-record.ts';
import type { Fact, GraphQuery } from '../../memory/search/graph.ts';
import type { SearchRequest, SearchResult } from '../../memory/search/search.ts';
import { createCallerRoute, type FindCaller, parseKey } from '../authenticate.ts';
import { maxBodyBytes, readOptionalBody } from '../body.ts';
import type { BodyMemory } from '../body-memory.ts';
import { createBodyParser } from '../body-parser.ts';
import { type MemoryBody, type MemoryBodyName, parseMemoryBody } from '../memory-bodies.ts';
import { PlainTextError } from '../plain-text-error.ts';
import {
  toEpisodeJson,
  toErasureJson,
  toFactsJson,
  toItemJson,
  toRecallJson,
  toRememberJson,
  toRemovalJson,
  toSearchJson,
  toWakeUpJson,
} from '../shapes/memory-json.ts';

/** The operations behind the memory routes. They throw the error codes in docs/api/reference.md#error-codes. */
export interface MemoryRouteDeps {
  readonly findCaller: FindCaller;
  readonly bodyMemory: BodyMemory;
  /** Resolves to null if the project has no such conversation. */
  readonly getEpisode: (projectId: string, id: string) => Promise<Episode | null>;
  /** Throws `not_found` if the project has no such conversation. */
  readonly remember: (caller: Caller, id: string, focus: string | null) => Promise<RememberReceipt>;
  readonly writeItem: (caller: Caller, item: NewItem) => Promise<Item>;
  readonly correctItem: (caller: Caller, id: string, text: string) => Promise<Item>;
  readonly removeItem: (caller: Caller, id: string) => Promise<Item>;
  readonly rateItem: (caller: Caller, id: string, request: RatingRequest) => Promise<Item>;
  readonly search: (caller: Caller, request: SearchRequest) => Promise<SearchResult>;
  readonly explainRecall: (caller: Caller, request: DryRunRequest) => Promise<RecallExplanation>;
  readonly wakeUp: (caller: Caller, subject: string | null) => Promise<WakeUp>;
  readonly findFacts: (caller: Caller, query: GraphQuery) => Promise<readonly Fact[]>;
  readonly eraseSubject: (caller: Caller, subject: string) => Promise<ErasureSummary>;
}

const parseBody = createBodyParser(new URL('../memory-bodies.ts', import.meta.url).href, parseMemoryBody);

export function createMemoryRoutes(deps: MemoryRouteDeps) {
  const { findCaller } = deps;
  const receive = async <Name extends MemoryBodyName>(
    name: Name,
    request: Request,
    { projectId, quotaKeyId }: Caller,
  ): Promise<MemoryBody<Name>> => {
    const memory = deps.bodyMemory.of(projectId, quotaKeyId);
    const body = await readOptionalBody(request, maxBodyBytes, memory, () => findCaller(parseKey(request.headers, false)));
    if (body === null) return parseMemoryBody(null, { name });
    const bodyBytes = body.length;
    try {
      return await parseBody(projectId, body, { name });
    } finally {
      memory.release(bodyBytes);
    }
  };
  const route = (respond: (caller: Caller, request: Request) => Promise<unknown>, status?: number) =>
    createCallerRoute(findCaller, respond, status);

  return {
    getEpisode: route(async ({ projectId }, request) => {
      const episode = await deps.getEpisode(projectId, parseId(request));
      if (episode === null) throw gatewayError('not_found', { message: 'no such conversation' });
      return toEpisodeJson(episode);
    }),
    remember: route(async (caller, request) => {
      const id = parseId(request);
      const { focus } = await receive('remember', request, caller);
      return toRememberJson(await deps.remember(caller, id, focus));
    }, 202),
    writeItem: route(async (caller, request) => toItemJson(await deps.writeItem(caller, await receive('item', request, caller))), 201),
    correctItem: route(async (caller, request) => {
      const id = parseId(request);
      const { text } = await receive('correction', request, caller);
      return toItemJson(await deps.correctItem(caller, id, text));
    }),
    removeItem: route(async (caller, request) => toRemovalJson(await deps.removeItem(caller, parseId(request)))),
    rateItem: route(async (caller, request) => {
      const id = parseId(request);
      return toItemJson(await deps.rateItem(caller, id, await receive('rating', request, caller)));
    }),
    search: route(async (caller, request) => {
      const body = await receive('search', request, caller);
      return toSearchJson(await deps.search(caller, body));
    }),
    explainRecall: route(async (caller, request) => {
      const body = await receive('recall', request, caller);
      return toRecallJson(await deps.explainRecall(caller, body));
    }),
    wakeUp: route(async (caller, request) => {
      const { subject } = await receive('wakeUp', request, caller);
      return toWakeUpJson(await deps.wakeUp(caller, subject));
    }),
    findFacts: route(async (caller, request) => {
      const body = await receive('graph', request, caller);
      return toFactsJson(await deps.findFacts(caller, body));
    }),
    /**
     * Runs before the routes. Throws `bad_request` if the path isn't a subject in percent-encoded UTF-8. Otherwise we
     * might erase a different subject than the caller meant.
     */
    async checkSubject(request: Request, _response: Response, next: NextFunction): Promise<void> {
      // If the client doesn't escape a `?` in the subject, the path ends there, and we'd erase the data of somebody
      // else. The server has already rejected a `#`.
      const isSubjectPath = isEncodedSubject(request.path.slice(1)) && !request.url.includes('?');
      if (request.method === 'DELETE' && !isSubjectPath && !dotSubjectUrl.test(request.url)) {
        await findCaller(parseKey(request.headers, false));
        throw gatewayError('bad_request', { message: `subject: must be ${subjectForm}` });
      }
      next();
    },
    eraseSubject: route(async (caller, { params: { subject = '' } }) => toErasureJson(await deps.eraseSubject(caller, String(subject)))),
    eraseDotSubject: route(async (caller, { query: { subject } }) => toErasureJson(await deps.eraseSubject(caller, String(subject)))),
  };
}

/**
 * Clients remove `.` and `..` from paths even if they're encoded (https://url.spec.whatwg.org), so callers have to pass
 * these two subjects in the query.
 */
const dotSubjectUrl = /^(?:https?:\/\/[^/?]*)?\/?\?subject=(?:\.|%2[eE]){1,2}$/;
const subjectForm =
  '1 to 256 characters without control characters, in percent-encoded UTF-8 (/ is %2F, ? is %3F and # is %23); ' +
  'for the subjects . and .., use the query ?subject=. instead of the path';

function isEncodedSubject(text: string): boolean {
  try {
    return !text.includes('/') && isSubject(decodeURIComponent(text));
  } catch {
    return false;
  }
}

function parseId(request: Request): string {
  const { id } = request.params;
  if (typeof id !== 'string' || !isUuid(id)) throw new PlainTextError(400, 'the id must be a UUID');
  return id.toLowerCase();
}
