import { z } from 'zod';
import { gatewayError } from '../../../core/errors.ts';
import { isUuid } from '../../../core/ids.ts';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import { type RefusalReason, refusalReasons } from '../../../core/refusal.ts';
import { type Clock, formatTime, minuteMs } from '../../../core/time.ts';
import {
  type RefusalCounts,
  type RefusalPageRequest,
  type RefusalSelection,
  type RefusedCallRow,
  startOfRefused,
} from '../../../usage/refusals/read-refusals.ts';
import { pageLimit } from '../../query-schemas.ts';
import { toRefusedCallJson } from '../../shapes/refused-call-json.ts';
import { param, type Responders } from './responders.ts';

export interface RefusedCallRouteDeps {
  readonly refusedCalls: {
    readonly list: (request: RefusalPageRequest) => Promise<RefusedCallRow[]>;
    /** Returns null if the project has no refused call with this id. */
    readonly find: (projectId: string, id: string) => Promise<RefusedCallRow | null>;
    readonly count: (selection: RefusalSelection & { readonly from: number; readonly to: number }) => Promise<RefusalCounts>;
  };
  readonly clock: Clock;
}

const callsQuery = z.strictObject({
  limit: pageLimit.default(100),
  before: z.string().refine(isUuid, 'must be the id of a call').optional(),
  reason: z.enum(refusalReasons as readonly [RefusalReason, ...RefusalReason[]]).optional(),
  key: z.string().min(1).max(64).optional(),
  source: z.string().min(1).max(256).optional(),
});

export function addRefusedCallRoutes({ read, readProject }: Responders, { refusedCalls, clock }: RefusedCallRouteDeps): void {
  const list = async (projectId: string | null, query: unknown) => {
    const page = { projectId, ...parseOrBadRequest(callsQuery, query) };
    const rows = await refusedCalls.list(page);
    const oldest = rows.at(-1);
    // Callers can send any UUID as `before_id`, even one with a timestamp in the future, so limit the time to the
    // present.
    const now = clock.now();
    const to = nextMinute(page.before === undefined ? now : Math.min(now, startOfRefused({ id: page.before })));
    // Count the refusals in the time range of this page. If the page isn't full, it's the last one, so count back to
    // the oldest refusal that we still have.
    const from = oldest && rows.length === page.limit ? startOfRefused(oldest) : 0;
    const period = { from: from - (from % minuteMs), to };
    const { calls, recorded } = await refusedCalls.count({ ...page, ...period });
    const counts = { calls, recorded, not_recorded: calls - recorded };
    return { object: 'list', data: rows.map(toRefusedCallJson), from: formatTime(period.from), to: formatTime(period.to), counts };
  };
  readProject('/teams/:project/refused-calls', ({ id }, { query }) => list(id, query));
  read('/refused-calls', ({ query }) => list(null, query));
  readProject('/teams/:project/refused-calls/:id', async (project, request) => {
    const row = await refusedCalls.find(project.id, param(request, 'id'));
    if (row === null) throw gatewayError('not_found', { message: 'no such refused call' });
    return toRefusedCallJson(row);
  });
}

function nextMinute(epochMs: number): number {
  return epochMs - (epochMs % minuteMs) + minuteMs;
}
