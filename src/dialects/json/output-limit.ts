/** Whether a request limits its output. */
import type { BodySpans } from '../../core/json/spans.ts';

/** Of all routes: a vendor may obey a member that its route does not document. */
const limitKeys = ['max_completion_tokens', 'max_tokens', 'max_output_tokens'] as const;

/** Also true for a value that the gateway does not understand, because the vendor may. */
export function hasOutputLimit({ members }: BodySpans): boolean {
  return limitKeys.some((key) => (members.get(key)?.kind ?? 'null') !== 'null');
}
