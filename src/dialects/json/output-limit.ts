import type { BodySpans } from '../../core/json/spans.ts';

/** The limit members of all routes, because a vendor may obey a member that its route doesn't document. */
const limitKeys = ['max_completion_tokens', 'max_tokens', 'max_output_tokens'] as const;

/**
 * Reports whether a request limits its output. A value that the gateway doesn't understand counts too, because the
 * vendor may understand it.
 */
export function hasOutputLimit({ members }: BodySpans): boolean {
  return limitKeys.some((key) => (members.get(key)?.kind ?? 'null') !== 'null');
}
