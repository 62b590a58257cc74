/**
 * The memory routes (specification 4.7): every one needs a key, which names the project.
 *
 * Bodies: content type, size and syntax are answered with plain text (7.2). JSON of the wrong shape is 422 plain text on search and graph,
 * `bad_request` on the others (shapes 21).
 */
import type { NextFunction, Request, Response } from 'express';
import type { Caller } from '../../core/call.ts';
import { formatIssues } from '../../core/error-messages.ts';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { isSubject } from '../../core/subject.ts';
import {
  type NewItem,
  parseCorrection,
  parseNewItem,
  parseRating,
  parseRemember,
  parseWakeUp,
  type Rating,
} from '../../memory/items/item-schemas.ts';
import { type GraphQuery, graphQuerySchema } from '../../memory/search/graph.ts';
import { type SearchRequest, searchRequestSchema } from '../../memory/search/search.ts';
import type { FindCaller } from '../authenticate.ts';
import { parseKey } from '../authenticate.ts';
import { readOptionalJson } from '../body.ts';
import { sendJson } from '../error-handler.ts';
import { PlainTextError } from '../plain-text-error.ts';

/** What the rooms answer, as JSON of shapes 3 to 8 and 14. They throw the codes of specification 7.4. */
export interface MemoryRouteDeps {
  readonly findCaller: FindCaller;
  /** Null when there is none with that id. */
  readonly getEpisode: (projectId: string, id: string) => Promise<unknown>;
  /** Throws `not_found`. */
  readonly remember: (caller: Caller, id: string, focus: string | null) => Promise<unknown>;
  readonly writeItem: (caller: Caller, item: NewItem) => Promise<unknown>;
  readonly correctItem: (caller: Caller, id: string, text: string) => Promise<unknown>;
  readonly removeItem: (caller: Caller, id: string) => Promise<unknown>;
  readonly rateItem: (caller: Caller, id: string, rating: Rating) => Promise<unknown>;
  readonly search: (caller: Caller, request: SearchRequest) => Promise<unknown>;
  readonly wakeUp: (caller: Caller, subject: string | null) => Promise<unknown>;
  readonly findFacts: (caller: Caller, query: GraphQuery) => Promise<unknown>;
  readonly eraseSubject: (caller: Caller, subject: string) => Promise<unknown>;
}

export function createMemoryRoutes(deps: MemoryRouteDeps) {
  const findCaller = (request: Request): Caller | Promise<Caller> => deps.findCaller(parseKey(request.headers, false));

  return {
    async getEpisode(request: Request, response: Response): Promise<void> {
      const { projectId } = await findCaller(request);
      const episode = await deps.getEpisode(projectId, parseId(request));
      if (episode === null) throw gatewayError('not_found', { message: 'no such conversation' });
      sendJson(response, 200, episode);
    },
    async remember(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const id = parseId(request);
      sendJson(response, 202, await deps.remember(caller, id, parseRemember(await readOptionalJson(request))));
    },
    async writeItem(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      sendJson(response, 201, await deps.writeItem(caller, parseNewItem(await readRequiredJson(request))));
    },
    async correctItem(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const id = parseId(request);
      sendJson(response, 200, await deps.correctItem(caller, id, parseCorrection(await readRequiredJson(request))));
    },
    async removeItem(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      sendJson(response, 200, await deps.removeItem(caller, parseId(request)));
    },
    async rateItem(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const id = parseId(request);
      sendJson(response, 200, await deps.rateItem(caller, id, parseRating(await readRequiredJson(request))));
    },
    async search(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const parsed = searchRequestSchema.safeParse(await readRequiredJson(request));
      if (!parsed.success) throw schemaMismatch(formatIssues(parsed.error));
      sendJson(response, 200, await deps.search(caller, parsed.data));
    },
    async wakeUp(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      sendJson(response, 200, await deps.wakeUp(caller, parseWakeUp(await readOptionalJson(request))));
    },
    async findFacts(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const parsed = graphQuerySchema.safeParse(await readOptionalJson(request));
      if (!parsed.success) throw schemaMismatch(formatIssues(parsed.error));
      sendJson(response, 200, await deps.findFacts(caller, parsed.data));
    },
    /** Before the router takes the address apart: what is no subject in percent-encoded UTF-8 is this route's `bad_request`, never another subject. */
    async checkSubject(request: Request, _response: Response, next: NextFunction): Promise<void> {
      // Behind a `?` that is not written `%3F` the rest of a subject would be lost, and somebody else be erased.
      if (request.method === 'DELETE' && !(isEncodedSubject(request.path.slice(1)) && !request.url.includes('?'))) {
        await findCaller(request);
        throw gatewayError('bad_request', { message: `the subject must be ${subjectForm}` });
      }
      next();
    },
    async eraseSubject(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(request);
      const { subject = '' } = request.params;
      sendJson(response, 200, await deps.eraseSubject(caller, String(subject)));
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
    return false; // No percent-encoded UTF-8.
  }
}

function parseId(request: Request): string {
  const { id } = request.params;
  if (typeof id !== 'string' || !isUuid(id)) throw new PlainTextError(400, 'the id must be a UUID');
  return id.toLowerCase();
}

function schemaMismatch(issues: readonly string[]): PlainTextError {
  return new PlainTextError(422, `the body does not fit the schema: ${issues.join('; ')}`);
}
