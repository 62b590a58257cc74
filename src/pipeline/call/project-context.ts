/** A project's settings as far as handling its calls depends on them. */
import type { ProjectLimits } from '../../ceilings/counters.ts';
import type { CompiledRules } from '../../guardrails/rules.ts';
import type { ProjectRouting } from '../../routing/rules.ts';
import type { CacheSettings } from '../cache/response-cache.ts';

/** An intersection, because routing and ceilings both have a member `applications`. */
export type ProjectContext = ProjectRouting & ProjectLimits & { readonly rules: CompiledRules; readonly cache: CacheSettings };
