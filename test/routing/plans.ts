/** A catalog that has all kinds of vendors, and plans for it. */
import type { Caller, TextRoute } from '../../src/core/call.ts';
import type { Breakers } from '../../src/failover/breaker.ts';
import { createBreakers } from '../../src/failover/breaker.ts';
import type { Catalog, CatalogSource } from '../../src/routing/catalog.ts';
import { buildCatalog } from '../../src/routing/catalog.ts';
import type { Plan } from '../../src/routing/plan.ts';
import { createPlanner } from '../../src/routing/plan.ts';
import { createPoolState } from '../../src/routing/pools.ts';
import type { ProjectRouting } from '../../src/routing/rules.ts';

export const price = { inputNanos: 1n, outputNanos: 2n, cachedInputNanos: 3n, cacheWriteNanos: 4n, cacheWrite1hNanos: 5n };
const unknown = { price: null, maxOutputTokens: null };
const everything = ['chat', 'embeddings', 'moderations', 'rerank', 'responses'] as const;

export const source: CatalogSource = {
  providers: {
    openai: { dialect: 'chat', serves: everything },
    azure: { dialect: 'chat', serves: everything },
    router: { dialect: 'chat', serves: ['chat'] },
    anthropic: { dialect: 'messages', serves: ['messages'] },
    google: { dialect: 'gemini', serves: ['video'] },
  },
  models: {
    'openai/gpt': { price, maxOutputTokens: 100 },
    'openai/mini': unknown,
    'azure/mini': unknown,
    'router/meta/llama': unknown,
    'anthropic/claude': unknown,
    'google/veo': { ...unknown, kind: 'video' },
    'gone/gpt': unknown,
  },
  tiers: {
    standard: ['openai/gpt', 'azure/mini'],
    both: ['openai/gpt', 'anthropic/claude', 'azure/mini'],
    strong: ['openai/mini'],
    wide: ['mini', 'meta/llama', 'openai/gpt'],
    repeated: ['openai/gpt', 'azure/mini', 'openai/gpt'],
    odd: ['nobody/x', 'unheard', 'openai/gpt'],
    claude: ['openai/gpt'],
    empty: [],
    video: ['google/veo'],
    embed: ['azure/mini', 'router/meta/llama'],
  },
};

export const project: ProjectRouting = {
  ...{ providers: null, tiers: {}, retired: [], requiredTags: [], catalogFill: null, applications: new Map() },
};

export interface Asked {
  readonly model?: string;
  readonly route?: TextRoute;
  readonly source?: string;
  readonly autoTier?: string | null;
  readonly keyModels?: readonly string[];
  readonly project?: Partial<ProjectRouting>;
  readonly catalog?: Catalog;
  readonly breakers?: Breakers;
  readonly catalogFill?: boolean;
}

export function callerWith(models: readonly string[] | null): Caller {
  return { keyId: 'k', keyPrefix: 'p', quotaKeyId: 'k', projectId: 'acme', models, expiresAt: null };
}

/** Returns the ordered plan of a call. By default it is a chat call to `auto` without catalog fill. */
export function plan(asked: Asked): Plan {
  const catalog = asked.catalog ?? buildCatalog(source);
  const planner = createPlanner({
    catalog,
    breakers: asked.breakers ?? createBreakers({ now: () => 0 }),
    catalogFill: asked.catalogFill ?? false,
    loads: createPoolState().loads,
  });
  const request = {
    caller: callerWith(asked.keyModels ?? null),
    project: { ...project, ...asked.project },
    source: asked.source ?? 'acme',
    route: asked.route ?? 'chat',
    requestedModel: asked.model ?? 'auto',
    affinity: () => ({ hash: 1, member: null }),
    ...(asked.autoTier === undefined ? {} : { autoTier: asked.autoTier }),
  };
  return planner.order(planner.plan(request), request);
}

export const idsOf = (asked: Asked): string[] => plan(asked).candidates.map(({ id }) => id);
