/**
 * The memory routes (docs/api/reference.md#memory); the key determines the project.
 *
 * Content type, size and syntax errors are plain text. A body that does not match the schema is a plain-text 422 on search and graph,
 * `bad_request` on the others.
 */
import type { NextFunction, Request, Response } from 'express';
import type { Caller } from '../../core/call.ts';
import { formatIssues } from '../../core/error-messages.ts';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { isSubject } from '../../core/subject.ts';
import type { Episode } from '../../memory/conversations/episodes.ts';
import type { ErasureSummary } from '../../memory/erasure/erasure-report.ts';
import {
  correctionBody,
  itemBody,
  type NewItem,
  type Rating,
  ratingBody,
  rememberBody,
  wakeUpBody,
} from '../../memory/items/item-schemas.ts';
import type { RememberReceipt } from '../../memory/learning/begin-batch.ts';
import type { WakeUp } from '../../memory/recall/wake-up.ts';
import type { Item } from '../../memory/records/item-record.ts';
import { type Fact, type GraphQuery, graphQuerySchema } from '../../memory/search/graph.ts';
import { type SearchRequest, type SearchResult, searchRequestSchema } from '../../memory/search/search.ts';
import type { FindCaller } from '../authenticate.ts';
import { parseKey } from '../authenticate.ts';
import { readOptionalJson } from '../body.ts';
import { sendJson } from '../error-handler.ts';
import { PlainTextError } from '../plain-text-error.ts';
import {
  toEpisodeJson,
  toErasureJson,
  toFactsJson,
  toItemJson,
  toRememberJson,
  toRemovalJson,
  toSearchJson,
  toWakeUpJson,
} from './memory-json.ts';

/** The operations of the memory routes. They throw the codes of docs/api/reference.md#error-codes. */
export interface MemoryRouteDeps {
  readonly findCaller: FindCaller;
  /** Null when no conversation has that id. */
  readonly getEpisode: (projectId: string, id: string) => Promise<Episode | null>;
  /** Throws `not_found`. */
  readonly remember: (caller: Caller, id: string, focus: string | null) => Promise<RememberReceipt>;
  readonly writeItem: (caller: Caller, item: NewItem) => Promise<Item>;
  readonly correctItem: (caller: Caller, id: string, text: string) => Promise<Item>;
  readonly removeItem: (caller: Caller, id: string) => Promise<Item>;
  readonly rateItem: (caller: Caller, id: string, rating: Rating) => Promise<Item>;
  readonly search: (caller: Caller, request: SearchRequest) => Promise<SearchResult>;
  readonly wakeUp: (caller: Caller, subject: string | null) => Promise<WakeUp>;
  readonly findFacts: (caller: Caller, query: GraphQuery) => Promise<readonly Fact[]>;
  readonly eraseSubject: (caller: Caller, subject: string) => Promise<ErasureSummary>;
}

export function createMemoryRoutes(deps: MemoryRouteDeps) {
  const findCaller = (request: Request): Caller | Promise<Caller> => deps.findCaller(parseKey(request.headers, false));

  return {
    async getEpisode(request: Request, response: Response): Promise<void> {
      const { projectId } = await findCaller(request);
      const episode = await deps.getEpisode(projectId, parseId(request));
      if (episode === null) throw gatewayError('not_found', { message: 'no such conversation' });
      sendJson(response, 200, toEpisodeJson(episode));
    },
    async remember(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const id = parseId(request);
      const { focus } = parseOrBadRequest(rememberBody, await readOptionalJson(request));
      sendJson(response, 202, toRememberJson(await deps.remember(caller, id, focus)));
    },
    async writeItem(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const item = await deps.writeItem(caller, parseOrBadRequest(itemBody, await readRequiredJson(request)));
      sendJson(response, 201, toItemJson(item));
    },
    async correctItem(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const id = parseId(request);
      const { text } = parseOrBadRequest(correctionBody, await readRequiredJson(request));
      sendJson(response, 200, toItemJson(await deps.correctItem(caller, id, text)));
    },
    async removeItem(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      sendJson(response, 200, toRemovalJson(await deps.removeItem(caller, parseId(request))));
    },
    async rateItem(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const id = parseId(request);
      const { rating } = parseOrBadRequest(ratingBody, await readRequiredJson(request));
      sendJson(response, 200, toItemJson(await deps.rateItem(caller, id, rating)));
    },
    async search(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const parsed = searchRequestSchema.safeParse(await readRequiredJson(request));
      if (!parsed.success) throw schemaMismatch(formatIssues(parsed.error));
      sendJson(response, 200, toSearchJson(await deps.search(caller, parsed.data)));
    },
    async wakeUp(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const { subject } = parseOrBadRequest(wakeUpBody, await readOptionalJson(request));
      sendJson(response, 200, toWakeUpJson(await deps.wakeUp(caller, subject)));
    },
    async findFacts(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const parsed = graphQuerySchema.safeParse(await readOptionalJson(request));
      if (!parsed.success) throw schemaMismatch(formatIssues(parsed.error));
      sendJson(response, 200, toFactsJson(await deps.findFacts(caller, parsed.data)));
    },
    /** Runs before routing: a path that is not a subject in percent-encoded UTF-8 is `bad_request`, never another subject. */
    async checkSubject(request: Request, _response: Response, next: NextFunction): Promise<void> {
      // An unescaped `?` would cut off the rest of the subject, and another subject would be erased.
      if (request.method === 'DELETE' && !(isEncodedSubject(request.path.slice(1)) && !request.url.includes('?'))) {
        await findCaller(request);
        throw gatewayError('bad_request', { message: `subject: must be ${subjectForm}` });
      }
      next();
    },
    async eraseSubject(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const { subject = '' } = request.params;
      sendJson(response, 200, toErasureJson(await deps.eraseSubject(caller, String(subject))));
    },
  };
}

async function readRequiredJson(request: Request): Promise<unknown> {
  const body = await readOptionalJson(request);
  if (body === undefined) throw gatewayError('bad_request', { message: 'a body is required' });
  return body;
}

const subjectForm = '1 to 256 characters without control characters, in percent-encoded UTF-8 (a slash is %2F, a question mark %3F)';

function isEncodedSubject(text: string): boolean {
  try {
    return !text.includes('/') && isSubject(decodeURIComponent(text));
  } catch {
    return false; // Not percent-encoded UTF-8.
  }
}

function parseId(request: Request): string {
  const { id } = request.params;
  if (typeof id !== 'string' || !isUuid(id)) throw new PlainTextError(400, 'the id must be a UUID');
  return id.toLowerCase();
}

function schemaMismatch(issues: readonly string[]): PlainTextError {
  return new PlainTextError(422, `the body does not match the schema: ${issues.join('; ')}`);
}
