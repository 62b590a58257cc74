/** The project's settings that we need to handle its calls. */
import type { Limits, ProjectLimits } from '../../ceilings/counters.ts';
import type { Call, MediaCall } from '../../core/call.ts';
import type { CompiledRules } from '../../guardrails/rules.ts';
import type { ProjectRouting } from '../../routing/rules.ts';
import type { CacheSettings } from '../cache/response-cache.ts';

/** This is an intersection because routing and ceilings both have a member `applications`. */
export type ProjectContext = ProjectRouting &
  ProjectLimits & { readonly rules: CompiledRules; readonly cache: CacheSettings; readonly errorCodes: 'gateway' | 'vendor' };

export function limitsFor(
  { caller, source, isExemptFromCallCeiling }: Pick<Call | MediaCall, 'caller' | 'source'> & Pick<Call, 'isExemptFromCallCeiling'>,
  project: ProjectLimits,
  key: Limits['key'],
): Limits {
  const ceilings = isExemptFromCallCeiling ? { ...key, calls: { ...key.calls, limit: null } } : key;
  const { projectId, quotaKeyId, onBudgetStoreDown = null } = caller;
  return { projectId, keyId: quotaKeyId, source, onBudgetStoreDown, key: ceilings, project };
}
