/** Connects the playground to the pipeline and to stored calls. */

import type { ConsoleRoute } from '../console/frame/route.ts';
import { createPlaygroundRoutes } from '../console/playground/routes.ts';
import { playgroundApplication } from '../core/call.ts';
import { newId } from '../core/ids.ts';
import { readCallText } from '../memory/conversations/read-call-text.ts';
import { backgroundCaller } from '../pipeline/call/internal-call.ts';
import { createPlayground } from '../pipeline/internal/playground.ts';
import { listChatModels } from '../routing/list-models.ts';
import { readCallDetail } from '../usage/analytics/call-detail.ts';
import type { ConsoleDeps } from './console-deps.ts';

/** Limits how much of a stored prompt we copy into the form. */
const textLimits = { maxMessages: 100, maxText: 100_000 };

type PlaygroundAreaDeps = Pick<ConsoleDeps, 'snapshot' | 'handleCall' | 'database' | 'readStored' | 'clock'>;

export function playgroundArea({ snapshot, handleCall, database, readStored, clock }: PlaygroundAreaDeps): readonly ConsoleRoute[] {
  return createPlaygroundRoutes({
    run: createPlayground({ handleCall, clock }),
    readCall: (projectId, callId) => readStored(() => readCallDetail(database, projectId, callId), projectId),
    readText: (projectId, callId) => readStored(() => readCallText(database, projectId, callId, textLimits), projectId),
    newCallId: () => newId(clock.now()),
    listModels({ id, settings }) {
      const { catalog, config } = snapshot();
      const caller = backgroundCaller(id);
      return listChatModels({ catalog, project: settings, source: playgroundApplication, caller, catalogFill: config.catalogFill });
    },
  });
}
