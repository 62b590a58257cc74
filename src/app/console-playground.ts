/** Connects the playground to the pipeline and the stored calls. */

import type { ConsoleRoute } from '../console/frame/route.ts';
import { createPlaygroundRoutes } from '../console/playground/routes.ts';
import { newId } from '../core/ids.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { readCallText } from '../memory/conversations/read-call-text.ts';
import type { HandleCall } from '../pipeline/call/handle-call.ts';
import { backgroundCaller } from '../pipeline/call/internal-call.ts';
import { createPlayground, playgroundApplication } from '../pipeline/internal/playground.ts';
import { listChatModels } from '../routing/list-models.ts';
import { readCallDetail } from '../usage/analytics/call-detail.ts';
import type { ConfigSnapshot } from './config-snapshot.ts';

/** Limits how much of a stored prompt fills the form. */
const textLimits = { maxMessages: 100, maxText: 100_000 };

interface PlaygroundAreaDeps {
  readonly snapshot: () => ConfigSnapshot;
  readonly handleCall: HandleCall;
  readonly database: Database;
  /** Runs a query after this process has stored its calls. */
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
  readonly clock: Clock;
}

export function playgroundArea({ snapshot, handleCall, database, readStored, clock }: PlaygroundAreaDeps): readonly ConsoleRoute[] {
  return createPlaygroundRoutes({
    run: createPlayground({ handleCall, clock }),
    readCall: (projectId, callId) => readStored(() => readCallDetail(database, projectId, callId)),
    readText: (projectId, callId) => readStored(() => readCallText(database, projectId, callId, textLimits)),
    newCallId: () => newId(clock.now()),
    listModels({ id, settings }) {
      const { catalog, config } = snapshot();
      const caller = backgroundCaller(id);
      return listChatModels({ catalog, project: settings, source: playgroundApplication, caller, catalogFill: config.catalogFill });
    },
    publicUrl: () => snapshot().config.publicUrl,
  });
}
