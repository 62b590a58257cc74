/**
 * Derives everything that happens in a run from its seed, i.e. the ceilings, the project's rules, the calls and the
 * vendors' responses.
 *
 * There are many habits that callers can have, but each run uses only a few. This way a single kind of call can fill up
 * a ceiling before other kinds hide the effect, and failing runs are easier to read.
 */
import type { WindowKind } from '../../src/core/windows.ts';
import { createRandom, type Random } from '../support/random.ts';
import type { Leaving } from './client.ts';
import type { UsageStyle, VendorFailure, VendorScript } from './generation.ts';
import { type CallRoute, createBody, pathOf } from './requests.ts';

/** A null member means that there is no such ceiling. `cost` is in USD. */
export interface Ceilings {
  readonly calls: number | null;
  readonly cost: number | null;
  readonly rpm: number | null;
  readonly tpm: number | null;
}

export interface PlannedCall {
  /** Unique in the test process. Both the prompt and the recorded row contain the name, so we can match them. */
  readonly name: string;
  readonly atMs: number;
  readonly route: CallRoute;
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly source: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly script: VendorScript;
  readonly leaving: Leaving;
  /** How many choices the caller asks for. */
  readonly choices: number;
}

export interface BillingPlan {
  readonly seed: number;
  readonly key: Ceilings;
  readonly windows: { readonly calls: WindowKind; readonly cost: WindowKind };
  /** The ceilings of the application `app`. */
  readonly application: Pick<Ceilings, 'calls' | 'cost'>;
  readonly monthlyCap: number | null;
  readonly outputRule: 'none' | 'blocks' | 'observes';
  /** If true, we keep terminating the thread that matches content rules while the calls run. */
  readonly endsRuleThread: boolean;
  readonly calls: readonly PlannedCall[];
}

type LimitStyle = 'none' | 'one' | 'both' | 'odd';

/** What callers tend to do in one run. */
interface Habits {
  readonly routes: readonly CallRoute[];
  readonly limits: readonly LimitStyle[];
  readonly appetite: 'small' | 'mixed' | 'huge';
  readonly visible: number;
  readonly mostChoices: number;
  readonly has: (habit: Habit) => boolean;
}

type Habit =
  | 'background'
  | 'broken off'
  | 'cache'
  | 'deadline'
  | 'failover'
  | 'images'
  | 'leaves'
  | 'missing usage'
  | 'recall'
  | 'retries'
  | 'rules'
  | 'service tier'
  | 'tools'
  | 'unusual members'
  | 'web search';

const habitShares: Readonly<Record<Habit, number>> = {
  background: 0.25,
  'broken off': 0.15,
  cache: 0.4,
  deadline: 0.2,
  failover: 0.25,
  images: 0.25,
  leaves: 0.4,
  'missing usage': 0.2,
  recall: 0.15,
  retries: 0.2,
  rules: 0.25,
  'service tier': 0.25,
  tools: 0.3,
  'unusual members': 0.3,
  'web search': 0.25,
};

export function createBillingPlan(seed: number, prefix: string): BillingPlan {
  const random = createRandom(seed);
  const habits = chooseHabits(random);
  const count = random.pick([1, 5, 20, 40, 60, 100, 100]);
  const spreadMs = random.pick([0, 0, 20, 200]);
  // A generator of its own, so that the decisions that were added later don't change what earlier seeds do.
  const additions = createRandom(~seed);
  const calls = Array.from({ length: count }, (_, n) => {
    const name = `${prefix}-${n}`;
    return planCall(random, habits, { name, atMs: random.below(spreadMs + 1), additions });
  });
  const hasRule = habits.has('rules');
  return {
    seed,
    ...planCeilings(random),
    outputRule: hasRule ? random.pick(['blocks', 'blocks', 'observes']) : 'none',
    endsRuleThread: hasRule && random.chance(0.5),
    calls,
  };
}

function planCeilings(random: Random): Pick<BillingPlan, 'key' | 'windows' | 'application' | 'monthlyCap'> {
  const cost = (): number => random.pick([0.002, 0.02, 0.2, 1, 4]);
  const count = (): number => random.pick([1, 3, 10, 30]);
  const tight = random.pick(['cost', 'cost', 'cost', 'application', 'cap', 'tpm', 'tpm', 'calls', 'rpm', 'several']);
  const is = (name: string): boolean => tight === name || (tight === 'several' && random.chance(0.5));
  return {
    key: {
      cost: is('cost') ? cost() : 1_000,
      calls: is('calls') ? count() : 100_000,
      rpm: is('rpm') ? count() : 100_000,
      tpm: is('tpm') ? random.pick([100, 2_000, 20_000, 200_000]) : 1_000_000_000,
    },
    windows: { calls: random.pick(['day', 'month', 'total']), cost: random.pick(['day', 'month', 'total']) },
    application: { cost: is('application') ? cost() : null, calls: is('application') && random.chance(0.3) ? count() : null },
    monthlyCap: is('cap') ? cost() : null,
  };
}

function chooseHabits(random: Random): Habits {
  const some = <Item>(items: readonly [Item, ...Item[]], share: number): readonly Item[] => {
    const chosen = items.filter(() => random.chance(share));
    return chosen.length > 0 ? chosen : [random.pick(items)];
  };
  const names = Object.keys(habitShares) as Habit[];
  const chosen = new Set(names.filter((name) => random.chance(habitShares[name])));
  return {
    routes: some(['chat', 'chat', 'messages', 'responses', 'responses', 'embeddings', 'rerank', 'images'], 0.3),
    limits: some(['none', 'one', 'both', 'odd'], 0.4),
    appetite: random.pick(['small', 'mixed', 'huge']),
    visible: random.pick([20, 200, 1_000]),
    mostChoices: random.pick([1, 1, 4, 8]),
    has: (habit) => chosen.has(habit),
  };
}

const chatModels = ['alpha/large', 'alpha/mini', 'beta/fast', 'gamma/deep', 'any'] as const;

interface CallSlot {
  readonly name: string;
  readonly atMs: number;
  readonly additions: Random;
}

function planCall(random: Random, habits: Habits, { name, atMs, additions }: CallSlot): PlannedCall {
  const { has } = habits;
  const route = random.pick(habits.routes as [CallRoute, ...CallRoute[]]);
  const model = has('failover') ? 'any' : random.pick(chatModels);
  const stream = random.chance(has('leaves') ? 0.8 : 0.5);
  const script = {
    ...planScript(random, habits),
    compacts: additions.chance(0.7),
    filteredImages: additions.pick([0, 0, 1, 3]),
  };
  const isBackground = route === 'responses' && has('background') && random.chance(0.5);
  const choices = route === 'chat' && model !== 'gamma/deep' ? random.between(1, habits.mostChoices) : 1;
  const body = createBody({
    route,
    model,
    mark: name,
    stream,
    promptBytes: random.pick([10, 200, 4_000]),
    images: has('images') ? random.below(4) : 0,
    limits: planLimits(random, habits),
    choices,
    isBackground,
    webSearch: has('web search') && random.chance(0.7),
    allowsCompaction: additions.chance(0.3),
    serviceTier: has('service tier') ? random.pick(['auto', 'default', 'flex', 'priority']) : null,
    asksForCache: has('cache') && random.chance(0.6) ? random.pick(['5m', '1h']) : null,
    usageInStream: random.chance(0.5),
    unusual: has('unusual members') && random.chance(0.6) ? random.below(6) : null,
  });
  const headers: Record<string, string> = {};
  if (has('deadline') && random.chance(0.5)) headers['x-gateway-timeout-ms'] = String(random.pick([1, 20, 60, 400]));
  if (has('recall')) headers['x-gateway-memory'] = random.pick(['recall', 'write', 'off']);
  if (has('retries')) headers['idempotency-key'] = `${name.slice(0, -1)}0`;
  return {
    name,
    atMs,
    route,
    path: pathOf(route),
    body,
    source: random.pick(['app', 'app', 'other']),
    headers,
    script,
    leaving: has('leaves') && random.chance(0.6) ? planLeaving(random) : null,
    choices: typeof body['n'] === 'number' ? body['n'] : 1,
  };
}

function planLeaving(random: Random): Leaving {
  return random.pick([
    { at: 'finish' },
    { at: 'finish' },
    { at: 'byte', count: random.between(1, 6_000) },
    { at: 'byte', count: random.between(1, 60_000) },
    { at: 'ms', count: random.between(0, 60) },
  ]);
}

/** Chooses the value of `RequestOptions.limits`. */
function planLimits(random: Random, { limits }: Habits): readonly [unknown, unknown] {
  const amount = (): number => random.pick([1, 16, 200, 1_000, 10_000, 100_000]);
  switch (random.pick(limits as [LimitStyle, ...LimitStyle[]])) {
    case 'none':
      return [undefined, undefined];
    case 'one':
      return random.pick([
        [amount(), undefined],
        [undefined, amount()],
      ]);
    case 'both':
      return [amount(), amount()];
    case 'odd':
      return [random.pick([null, undefined, amount()]), random.pick([null, amount(), 0, 1.5, '10'])];
  }
}

function planScript(random: Random, { has, appetite, visible }: Habits): Omit<VendorScript, 'compacts' | 'filteredImages'> {
  const wanted = { small: [1, 50, 500], mixed: [1, 500, 5_000, 30_000], huge: [5_000, 60_000, 500_000] }[appetite];
  const usage: UsageStyle = has('missing usage')
    ? random.pick(['missing', 'in every chunk', 'at the end', 'before the content'])
    : random.pick(['at the end', 'at the end', 'with the finish']);
  return {
    wanted: random.pick(wanted as [number, ...number[]]),
    visible: random.between(1, visible),
    shownReasoning: random.chance(0.4) ? random.below(visible) : 0,
    callsTool: has('tools') && random.chance(0.6),
    opening: has('rules') && random.chance(0.3) ? 'forbidden! ' : '',
    cachedShare: has('cache') ? random.pick([0, 0.3, 0.9]) : 0,
    writtenShare: has('cache') ? random.pick([0, 0.5, 1]) : 0,
    webSearches: has('web search') ? random.below(5) : 0,
    isTierFull: has('service tier') && random.chance(0.2),
    usage,
    firstByteMs: random.pick([0, 5, 40]),
    pauseMs: has('leaves') ? random.pick([0, 0, 2]) : 0,
    chunkTokens: random.pick([4, 20, 200]),
    failures: planFailures(random, has),
  };
}

function planFailures(random: Random, has: Habits['has']): VendorScript['failures'] {
  const kinds: VendorFailure[] = ['status 500', 'status 429', 'closed connection'];
  if (has('broken off')) kinds.push('broken response', 'broken response');
  if (!has('failover') && !has('broken off')) return {};
  return Object.fromEntries(
    ['alpha', 'beta', 'gamma'].flatMap((provider) =>
      random.chance(0.3) ? [[provider, random.pick(kinds as [VendorFailure, ...VendorFailure[]])]] : [],
    ),
  );
}
