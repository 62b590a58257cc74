/**
 * Checks the ceilings for requests that are free but go to a vendor. They don't count towards any ceiling, but without
 * this check, a key that has reached its ceilings could send them without end.
 */
import type { Admission } from '../../ceilings/admission.ts';
import type { Limits } from '../../ceilings/counters.ts';
import type { Call, Caller, MediaCall } from '../../core/call.ts';
import { limitsFor, type ProjectContext } from './project-context.ts';

interface CeilingCheckDeps {
  readonly admission: Pick<Admission, 'admit'>;
  readonly getKeyCeilings: (caller: Caller) => Promise<Limits['key']>;
}

/** Throws the error that even the smallest call would get at the moment, e.g. `tenant_capped`. */
export type CheckCeilings = (call: Pick<Call | MediaCall, 'caller' | 'source' | 'startedAt'>, project: ProjectContext) => Promise<void>;

export function createCeilingCheck({ admission, getKeyCeilings }: CeilingCheckDeps): CheckCeilings {
  return async (call, project) => {
    const limits = limitsFor(call, project, await getKeyCeilings(call.caller));
    const reservation = await admission.admit({ limits, startedAt: call.startedAt, bounds: () => ({ costNanos: 1, tokens: 1 }) });
    reservation.release();
  };
}
