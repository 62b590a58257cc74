/** `GET /v1/models`: lists what the key may use, in the format of the OpenAI SDKs. Does not count as a call. */
import type { ModelRow, ModelsRequest } from '../../routing/list-models.ts';
import { createCallerRoute, type FindCaller } from '../authenticate.ts';
import { parseTextHeader } from '../headers.ts';
import type { FindProject } from './text.ts';

export interface ModelsRouteDeps {
  readonly findCaller: FindCaller;
  readonly findProject: FindProject;
  readonly listModels: (request: Pick<ModelsRequest, 'caller' | 'project' | 'source'>) => readonly ModelRow[];
}

export function createModelsRoute({ findCaller, findProject, listModels }: ModelsRouteDeps) {
  return createCallerRoute(findCaller, async (caller, { headers }) => {
    const { slug, settings } = await findProject(caller.projectId);
    const source = parseTextHeader(headers, 'x-gateway-source') ?? slug;
    return { object: 'list', data: listModels({ caller, project: settings, source }) };
  });
}
