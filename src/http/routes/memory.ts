/**
 * The memory routes (docs/api/reference.md#memory). The key determines the project. If the content type, size or syntax
 * is wrong, we send a plain-text error. If a body doesn't match the schema, search, recall and graph send a plain-text
 * 422, and the other routes send `bad_request`.
 */
import type { NextFunction, Request, Response } from 'express';
import type { z } from 'zod';
import type { Caller } from '../../core/call.ts';
import { formatIssues } from '../../core/error-messages.ts';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { isObject } from '../../core/json/narrow.ts';
import { parseOrBadRequest, parseWithIssues } from '../../core/parse-or-bad-request.ts';
import { isSubject } from '../../core/subject.ts';
import type { Episode } from '../../memory/conversations/episodes.ts';
import type { ErasureSummary } from '../../memory/erasure/erasure-report.ts';
import {
  correctionBody,
  itemBody,
  type NewItem,
  type RatingRequest,
  ratingBody,
  rememberBody,
  wakeUpBody,
} from '../../memory/items/item-schemas.ts';
import type { RememberReceipt } from '../../memory/learning/begin-batch.ts';
import { type DryRunRequest, dryRunRequestSchema } from '../../memory/recall/dry-run.ts';
import type { RecallExplanation } from '../../memory/recall/recall.ts';
import type { WakeUp } from '../../memory/recall/wake-up.ts';
import type { Item } from '../../memory/records/item-record.ts';
import { type Fact, type GraphQuery, graphQuerySchema } from '../../memory/search/graph.ts';
import { type SearchRequest, type SearchResult, searchRequestSchema } from '../../memory/search/search.ts';
import { createCallerRoute, type FindCaller, parseKey } from '../authenticate.ts';
import { readOptionalJson } from '../body.ts';
import type { BodyMemory } from '../body-memory.ts';
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

export function createMemoryRoutes(deps: MemoryRouteDeps) {
  const { findCaller } = deps;
  const readOptional = (request: Request, { projectId, quotaKeyId }: Caller): Promise<unknown> =>
    readOptionalJson(request, deps.bodyMemory.of(projectId, quotaKeyId));
  const readRequired = async (request: Request, caller: Caller): Promise<unknown> => {
    const body = await readOptional(request, caller);
    if (body === undefined) throw gatewayError('bad_request', { message: 'a body is required' });
    return body;
  };

  /** A key that asks for a pinned memory gets `forbidden`, even if other members are invalid. */
  const parseMemory = async <Schema extends z.ZodType>(schema: Schema, request: Request, caller: Caller): Promise<z.output<Schema>> => {
    const body = await readRequired(request, caller);
    if (isObject(body) && body.pinned === true)
      throw gatewayError('forbidden', { message: 'virtual keys are not allowed to pin memories' });
    return parseOrBadRequest(schema, body);
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
      const { focus } = parseOrBadRequest(rememberBody, await readOptional(request, caller));
      return toRememberJson(await deps.remember(caller, id, focus));
    }, 202),
    writeItem: route(
      async (caller, request) => toItemJson(await deps.writeItem(caller, await parseMemory(itemBody, request, caller))),
      201,
    ),
    correctItem: route(async (caller, request) => {
      const id = parseId(request);
      const { text } = await parseMemory(correctionBody, request, caller);
      return toItemJson(await deps.correctItem(caller, id, text));
    }),
    removeItem: route(async (caller, request) => toRemovalJson(await deps.removeItem(caller, parseId(request)))),
    rateItem: route(async (caller, request) => {
      const id = parseId(request);
      return toItemJson(await deps.rateItem(caller, id, parseOrBadRequest(ratingBody, await readRequired(request, caller))));
    }),
    search: route(async (caller, request) => {
      const body = parseOrMismatch(searchRequestSchema, await readRequired(request, caller));
      return toSearchJson(await deps.search(caller, body));
    }),
    explainRecall: route(async (caller, request) => {
      const body = parseOrMismatch(dryRunRequestSchema, await readRequired(request, caller));
      return toRecallJson(await deps.explainRecall(caller, body));
    }),
    wakeUp: route(async (caller, request) => {
      const { subject } = parseOrBadRequest(wakeUpBody, await readOptional(request, caller));
      return toWakeUpJson(await deps.wakeUp(caller, subject));
    }),
    findFacts: route(async (caller, request) => {
      const body = parseOrMismatch(graphQuerySchema, await readOptional(request, caller));
      return toFactsJson(await deps.findFacts(caller, body));
    }),
    /**
     * Runs before the routes. Throws `bad_request` if the path isn't a subject in percent-encoded UTF-8. Otherwise we
     * might erase a different subject than the caller meant.
     */
    async checkSubject(request: Request, _response: Response, next: NextFunction): Promise<void> {
      // If the client doesn't escape a `?` in the subject, the path ends there, and we'd erase the data of somebody
      // else.
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
const dotSubjectUrl = /^\/?\?subject=(?:\.|%2e){1,2}$/i;
const subjectForm =
  '1 to 256 characters without control characters, in percent-encoded UTF-8 (a slash is %2F, a question mark %3F); ' +
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

/** Throws a plain-text 422 that lists all mistakes in the body. */
function parseOrMismatch<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const parsed = parseWithIssues(schema, body);
  if (parsed.success) return parsed.data;
  throw new PlainTextError(422, `the body does not match the schema: ${formatIssues(parsed.issues)}`);
}
