/** `GET /v1/models`: lists what the key may use, in the format of the OpenAI SDKs. Does not count as a call. */
import type { Request, Response } from 'express';
import type { Caller } from '../../core/call.ts';
import type { ModelRow } from '../../routing/list-models.ts';
import type { ProjectRouting } from '../../routing/rules.ts';
import type { FindCaller } from '../authenticate.ts';
import { parseKey } from '../authenticate.ts';
import { sendJson } from '../error-handler.ts';
import { parseTextHeader } from '../headers.ts';

export interface ModelsRouteDeps {
  readonly findCaller: FindCaller;
  readonly findProject: (
    projectId: string,
  ) => { readonly slug: string; readonly settings: ProjectRouting } | Promise<{ readonly slug: string; readonly settings: ProjectRouting }>;
  readonly listModels: (asker: {
    readonly caller: Caller;
    readonly project: ProjectRouting;
    readonly source: string;
  }) => readonly ModelRow[];
}

export function createModelsRoute({ findCaller, findProject, listModels }: ModelsRouteDeps) {
  return async function modelsRoute(request: Request, response: Response): Promise<void> {
    const caller = await findCaller(parseKey(request.headers, false));
    const { slug, settings } = await findProject(caller.projectId);
    const source = parseTextHeader(request.headers, 'x-gateway-source') ?? slug;
    sendJson(response, 200, { object: 'list', data: listModels({ caller, project: settings, source }) });
  };
}
