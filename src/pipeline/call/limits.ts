import type { Limits, ProjectLimits } from '../../ceilings/counters.ts';
import type { Call, MediaCall } from '../../core/call.ts';

/** Returns all ceilings that apply to a call. */
export function limitsFor(
  { caller, source }: Pick<Call | MediaCall, 'caller' | 'source'>,
  project: ProjectLimits,
  key: Limits['key'],
): Limits {
  return { projectId: caller.projectId, keyId: caller.quotaKeyId, source, key, project };
}
