/** Reads what a vendor reports about the price of a response, apart from its tokens (docs/vendors.md#extra-charges). */
import { asArray, asCount, asObject, asString, type JsonObject } from '../../core/json/narrow.ts';

export interface BillingReport {
  /** The processing tier that the vendor used, e.g. `priority`, `flex` or `default`. */
  readonly serviceTier?: string;
  /** How often the model used each tool that the vendor runs and bills separately, e.g. `web_search`. */
  readonly toolUses?: Readonly<Record<string, number>>;
  readonly reportedCostNanos?: number;
  /** Set if other models have generated a part of the response, so that the price may differ. */
  readonly usesOtherModels?: true;
}

const noReport: BillingReport = {};

/**
 * Reads the billing information of a response. This also works for stream events, because they have the same `usage`
 * and `service_tier` fields.
 */
export function readBillingReport(response: JsonObject): BillingReport {
  const { usage, service_tier: tier, output } = response;
  if (typeof usage !== 'object' && typeof tier !== 'string' && output === undefined) return noReport;
  const counts = asObject(usage);
  const serviceTier = readServiceTier(asString(tier) ?? asString(counts.service_tier), counts);
  const toolUses = readToolUses(counts, output);
  const reportedCostNanos = readCost(counts);
  const usesOtherModels = hasOtherModels(counts);
  if (toolUses === null && reportedCostNanos === null && !usesOtherModels) return serviceTier === null ? noReport : { serviceTier };
  return {
    ...(serviceTier !== null && { serviceTier }),
    ...(toolUses !== null && { toolUses }),
    ...(reportedCostNanos !== null && { reportedCostNanos }),
    ...(usesOtherModels && { usesOtherModels }),
  };
}

/** The types of Anthropic's iterations for which a model other than that of the request is billed. */
const otherModelIterations: ReadonlySet<unknown> = new Set(['advisor_message', 'fallback_message']);

function hasOtherModels({ iterations }: JsonObject): boolean {
  return iterations !== undefined && asArray(iterations).some((iteration) => otherModelIterations.has(asObject(iteration).type));
}

/** No vendor's tier has a longer name than this, so longer ones are ignored. */
const maxTierLength = 64;

/**
 * Anthropic reports its fast mode and its region in separate fields. We treat both as service tiers, so the result can
 * be e.g. `fast`, `us` or `fast+us`.
 */
function readServiceTier(tier: string | null, { speed, inference_geo: geo }: JsonObject): string | null {
  if (speed === undefined && geo === undefined) return tier !== null && tier.length <= maxTierLength ? tier : null;
  const surcharged = [
    ...(tier === null || tier === 'standard' ? [] : [tier]),
    ...(speed === 'fast' ? [speed] : []),
    ...(typeof geo !== 'string' || geo === '' || geo === 'global' || geo === 'not_available' ? [] : [geo]),
  ];
  const name = surcharged.length === 0 ? tier : surcharged.join('+');
  return name !== null && name.length <= maxTierLength ? name : null;
}

/**
 * Anthropic and OpenRouter count requests in `server_tool_use`, and xAI counts calls in
 * `server_side_tool_usage_details`. OpenAI doesn't send counts on the responses route, but there is an output item for
 * each call.
 */
function readToolUses(usage: JsonObject, output: unknown): Readonly<Record<string, number>> | null {
  const { server_tool_use: requests, server_side_tool_usage_details: details } = usage;
  // Most responses don't report any tools.
  if (requests === undefined && details === undefined && output === undefined) return null;
  const reported = { ...asObject(requests), ...asObject(details) };
  const uses: Record<string, number> = Object.create(null);
  for (const [name, value] of Object.entries(reported)) {
    const [, tool] = /^(\w{1,64}?)_(?:requests|calls)$/.exec(name) ?? [];
    const count = asCount(value);
    if (tool !== undefined && count !== undefined && count > 0) uses[tool] = count;
  }
  if (Object.keys(uses).length === 0) countItems(asArray(output), uses);
  return Object.keys(uses).length > 0 ? uses : null;
}

/**
 * Output items that vendors don't bill per call. They're either calls of the caller's own tools, or only cost tokens.
 */
const unbilledItems: ReadonlySet<string> = new Set([
  'function_call',
  'custom_tool_call',
  'computer_call',
  'local_shell_call',
  'apply_patch_call',
]);

function countItems(items: readonly unknown[], uses: Record<string, number>): void {
  const containers = new Set<unknown>();
  for (const item of items) {
    const { type, action, container_id: container } = asObject(item);
    const [, tool] = typeof type === 'string' && !unbilledItems.has(type) ? (/^(\w{1,64})_call$/.exec(type) ?? []) : [];
    if (tool === undefined) continue;
    // OpenAI bills searches, but not opening the pages that were found. It bills each container once, no matter how
    // often code runs in it.
    const { type: actionType = 'search' } = asObject(action);
    if (tool === 'web_search' && actionType !== 'search') continue;
    if (tool === 'code_interpreter' && typeof container === 'string') {
      if (containers.has(container)) continue;
      containers.add(container);
    }
    uses[tool] = (uses[tool] ?? 0) + 1;
  }
}

/**
 * Returns the cost of a call in nano-dollars, or null if the vendor doesn't report it. OpenRouter reports USD. If
 * callers use their own key for the upstream vendor, OpenRouter reports that vendor's cost in a separate field, so we
 * add both. xAI reports ticks of 1e-10 USD.
 */
function readCost(usage: JsonObject): number | null {
  const { cost, is_byok: isOwnKey, cost_details: details, cost_in_usd_ticks: ticks } = usage;
  if (isAmount(ticks)) return toNanos(ticks / 1e10);
  if (!isAmount(cost)) return null;
  const { upstream_inference_cost: upstream } = asObject(details);
  return toNanos(cost + (isOwnKey === true && isAmount(upstream) ? upstream : 0));
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function toNanos(usd: number): number {
  return Math.min(Math.round(usd * 1e9), Number.MAX_SAFE_INTEGER);
}
