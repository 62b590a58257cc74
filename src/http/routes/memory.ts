/** The memory routes (specification 4.7). */
import type { Request, Response } from 'express';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import type { FindCaller } from '../authenticate.ts';
import { readKey } from '../authenticate.ts';
import { sendJson } from '../error-handler.ts';
import { PlainTextError } from '../plain-text-error.ts';

export interface MemoryRouteDeps {
  readonly findCaller: FindCaller;
  /** A conversation of the project as shapes 14 has it; null when there is none with that id. */
  readonly getEpisode: (projectId: string, id: string) => Promise<unknown>;
}

export function createMemoryRoutes({ findCaller, getEpisode }: MemoryRouteDeps) {
  return {
    async getEpisode(request: Request, response: Response): Promise<void> {
      const caller = await findCaller(readKey(request.headers, false));
      const { id } = request.params;
      if (typeof id !== 'string' || !isUuid(id)) throw new PlainTextError(400, 'the id must be a UUID');
      const episode = await getEpisode(caller.projectId, id.toLowerCase());
      if (episode === null) throw gatewayError('not_found', { message: 'no such conversation' });
      sendJson(response, 200, episode);
    },
  };
}
