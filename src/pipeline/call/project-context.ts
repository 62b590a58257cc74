/** A project as the story of a call needs it. */
import type { ProjectLimits } from '../../ceilings/counters.ts';
import type { CompiledRules } from '../../guardrails/rules.ts';
import type { ProjectRouting } from '../../routing/rules.ts';
import type { CacheSettings } from '../cache/response-cache.ts';

/** An intersection: routing and ceilings both say something of the project's applications. */
export type ProjectContext = ProjectRouting & ProjectLimits & { readonly rules: CompiledRules; readonly cache: CacheSettings };
