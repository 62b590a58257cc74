/** A project as the story of a call needs it. */
import type { ReadyRules } from '../guardrails/rules.ts';
import type { ProjectRouting } from '../routing/rules.ts';
import type { CacheSettings } from './response-cache.ts';

export interface CalledProject extends ProjectRouting {
  readonly rules: ReadyRules;
  readonly cache: CacheSettings;
}
