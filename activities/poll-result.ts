/** Results of activities that ask their workflow to wait. */
import type { Wait } from '../workflows/contract.ts';

/**
 * Copies only the kind and the delay (rounded up), so that no other members of a module's result end up in a workflow's
 * history.
 */
export function toPollResult<Kind extends string>(result: { readonly kind: Kind } | Wait): { readonly kind: Kind } | Wait {
  return 'waitMs' in result ? { kind: 'wait', waitMs: Math.ceil(result.waitMs) } : { kind: result.kind };
}
