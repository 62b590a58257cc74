/** A project as the story of a call needs it. */
import type { ReadyRules } from '../guardrails/rules.ts';
import type { ProjectRouting } from '../routing/rules.ts';

export interface CalledProject extends ProjectRouting {
  readonly rules: ReadyRules;
}
