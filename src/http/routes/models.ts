/**
 * `GET /v1/models` and `GET /v1/models/{id}` return the models that the key can use. If the request has an
 * `anthropic-version` header, the response and its errors have the format of Anthropic's API, otherwise the format of
 * OpenAI's API. These requests don't count as calls.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Request, Response } from 'express';
import { z } from 'zod';
import { gatewayError } from '../../core/errors.ts';
import { parseOrBadRequest } from '../../core/parse-or-bad-request.ts';
import { formatTime } from '../../core/time.ts';
import { splitModelId } from '../../routing/catalog.ts';
import type { ModelRow, ModelsRequest } from '../../routing/list-models.ts';
import { type FindCaller, parseKey } from '../authenticate.ts';
import { type ErrorReports, sendError, sendJson } from '../error-handler.ts';
import { parseSource } from '../headers.ts';
import { pageLimit } from '../query-schemas.ts';
import type { FindProject } from './text.ts';

export interface ModelsRouteDeps extends ErrorReports {
  readonly findCaller: FindCaller;
  readonly findProject: FindProject;
  readonly listModels: (request: Pick<ModelsRequest, 'caller' | 'project' | 'source'>) => readonly ModelRow[];
}

type Format = (row: ModelRow) => object;

export function createModelsRoutes(deps: ModelsRouteDeps) {
  const { findCaller, findProject, listModels } = deps;
  const findRows = async (headers: IncomingHttpHeaders): Promise<readonly ModelRow[]> => {
    const caller = await findCaller(parseKey(headers, true));
    const { slug, settings } = await findProject(caller.projectId);
    return listModels({ caller, project: settings, source: parseSource(headers) ?? slug });
  };

  const createRoute = (respond: (rows: readonly ModelRow[], request: Request, format: Format) => object) => {
    return async (request: Request, response: Response): Promise<void> => {
      const isAnthropic = request.headers['anthropic-version'] !== undefined;
      try {
        const rows = await findRows(request.headers);
        sendJson(response, 200, respond(rows, request, isAnthropic ? toAnthropicModel : (row) => row));
      } catch (error) {
        sendError(response, error, isAnthropic ? 'messages' : 'chat', deps);
      }
    };
  };

  return {
    list: createRoute((rows, { query }, format) => {
      const { page, hasMore } = selectPage(rows, query);
      const ids = { first_id: page[0]?.id ?? null, last_id: page.at(-1)?.id ?? null };
      return { object: 'list', data: page.map(format), has_more: hasMore, ...ids };
    }),
    get: createRoute((rows, { params }, format) => {
      // Express decodes each path segment, so the slash in an id can be sent as `/` or as `%2F`.
      const asked = [params.id ?? ''].flat().join('/');
      const row = rows.find(({ id }) => id === asked) ?? rows.find(({ id }) => splitModelId(id)?.model === asked);
      if (row) return format(row);
      throw gatewayError('not_found', {
        message: `unknown model "${asked.slice(0, 256)}"; GET /v1/models lists the models and tiers that this key may use`,
      });
    }),
  };
}

function toAnthropicModel({ id, created }: ModelRow): object {
  return { type: 'model', id, display_name: id, created_at: formatTime(created * 1_000) };
}

/** Returns the models between `after_id` and `before_id`, up to the limit. Throws `bad_request`. */
function selectPage(rows: readonly ModelRow[], query: Request['query']): { page: readonly ModelRow[]; hasMore: boolean } {
  const { after_id: afterId, before_id: beforeId } = query;
  const { limit: count = rows.length } = parseOrBadRequest(z.object({ limit: pageLimit.optional() }), query);
  const start = afterId === undefined ? 0 : positionOf(rows, 'after_id', afterId) + 1;
  const end = beforeId === undefined ? rows.length : positionOf(rows, 'before_id', beforeId);
  const range = rows.slice(start, end);
  // A client that doesn't send `after_id` is paging backwards, so return the rows directly before `before_id`.
  const page = afterId === undefined && beforeId !== undefined ? range.slice(Math.max(0, range.length - count)) : range.slice(0, count);
  return { page, hasMore: page.length < range.length };
}

function positionOf(rows: readonly ModelRow[], name: string, id: unknown): number {
  const position = rows.findIndex((row) => row.id === id);
  if (position < 0) throw gatewayError('bad_request', { message: `${name}: no model in this list has this id` });
  return position;
}
