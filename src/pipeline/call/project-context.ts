/** The project settings that we need while handling a call. */
import type { Limits, ProjectLimits } from '../../ceilings/counters.ts';
import type { Call, MediaCall } from '../../core/call.ts';
import type { CompiledRules } from '../../guardrails/rules.ts';
import type { ProjectRouting } from '../../routing/rules.ts';
import type { CacheSettings } from '../cache/response-cache.ts';

/**
 * This has to be an intersection type. An interface can't extend both, because routing and ceilings each have a field
 * named `applications`.
 */
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
