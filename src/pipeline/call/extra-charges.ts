/**
 * What vendors bill besides tokens at their standard price: other service tiers, and the tools that they run themselves. See
 * docs/vendors.md#extra-charges.
 */
import type { Call } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { scanElements, scanMembers } from '../../core/json/spans.ts';
import type { CallUnits, Price } from '../../core/pricing.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { hidesAscii, parsePositiveInteger, parseStringMember } from '../../dialects/json/body-members.ts';

/** Assumed uses of a tool when the request limits neither this tool (`max_uses`) nor all tools (`max_tool_calls`). */
const defaultToolUses = 10;
/** Names under which vendors report or accept the standard price. `scale` is paid for in advance. */
const standardTiers: ReadonlySet<string> = new Set([
  ...['auto', 'default', 'standard', 'standard_only', 'on_demand', 'scale', 'global', 'not_available'],
]);
const toolKeys: ReadonlySet<string> = new Set(['type', 'max_uses']);

/** The tiers that a request asks for by name, other than the standard one. */
export function requestedTiers({ body, spans: { members } }: Call): readonly string[] {
  const names = ['service_tier', 'speed', 'inference_geo'].flatMap((key) => parseStringMember(body, members.get(key)) ?? []);
  return names.filter(isOtherTier);
}

/** The name of a tier is stored with the call, so it must be a name and not just any text. */
function isOtherTier(name: string): boolean {
  return !standardTiers.has(name) && /^[\w.-]{1,63}$/.test(name);
}

/** The most uses of each tool with a price that the request allows. Most calls have no tools, so nothing is parsed for them. */
export function requestedTools({ route, body, spans: { members } }: Call, price: Price): Readonly<Record<string, number>> {
  const { perToolUseNanos } = price;
  const uses: Record<string, number> = {};
  if (perToolUseNanos === undefined) return uses;
  // The search models of chat search once per call.
  if (route === 'chat' && members.get('web_search_options')?.kind === 'object' && Object.hasOwn(perToolUseNanos, 'web_search')) {
    uses.web_search = 1;
  }
  const tools = members.get('tools');
  if (tools?.kind !== 'array') return uses;
  const text = body.subarray(tools.value.start, tools.value.end);
  if (!Object.keys(perToolUseNanos).some((name) => text.includes(name)) && !hidesAscii(text)) return uses;
  const most = parsePositiveInteger(body, members.get('max_tool_calls')) ?? defaultToolUses;
  for (const { kind, value } of scanElements(body, tools.value.start)) {
    if (kind !== 'object') continue;
    const tool = scanMembers(body, value.start, toolKeys);
    const name = toToolName(parseStringMember(body, tool.members.get('type')) ?? '');
    if (!Object.hasOwn(perToolUseNanos, name)) continue;
    uses[name] = (uses[name] ?? 0) + (parsePositiveInteger(body, tool.members.get('max_uses')) ?? most);
  }
  return uses;
}

/** The name without its version: `web_search_20250305` and `web_search_preview_2025_03_11`. */
function toToolName(type: string): string {
  return type.replace(/(?:_\d+)+$/, '');
}

/** What a response was billed by besides tokens; `isPriced` says whether the catalog knows the prices. Null for most calls. */
export function extraUnits(
  call: Call,
  candidate: Candidate,
  { serviceTier, toolUses }: ResponseSummary,
): { readonly units: Pick<CallUnits, 'serviceTier' | 'toolUses'>; readonly isPriced: boolean } | null {
  const { members } = call.spans;
  const asksForTier = members.has('service_tier') || members.has('speed') || members.has('inference_geo');
  const asksForSearch = members.has('web_search_options');
  if (!asksForTier && !asksForSearch && toolUses === undefined && (serviceTier === undefined || standardTiers.has(serviceTier)))
    return null;
  const { price } = candidate;
  const tiers = usedTiers(call, candidate, serviceTier);
  const tools = namedAsRequested(call, price, toolUses ?? (asksForSearch && price ? requestedTools(call, price) : {}));
  if (tiers.length === 0 && Object.keys(tools).length === 0) return null;
  const { tierMillionths = {}, perToolUseNanos = {} } = price ?? {};
  const isPriced =
    price === null ||
    (tiers.every((tier) => Object.hasOwn(tierMillionths, tier)) &&
      Object.keys(tools).every((tool) => Object.hasOwn(perToolUseNanos, tool)));
  return {
    units: {
      ...(tiers.length > 0 && { serviceTier: tiers.join('+') }),
      ...(Object.keys(tools).length > 0 && { toolUses: tools }),
    },
    isPriced,
  };
}

/**
 * The tiers of a response. The vendor's word on `service_tier` counts, since it may have used the standard tier instead. Speed and region are
 * those of the request, which vendors either serve or refuse. Translated requests have none of the three.
 */
function usedTiers(call: Call, { dialect, responses }: Candidate, reported: string | undefined): readonly string[] {
  const { route, body, spans } = call;
  const isTranslated = route === 'responses' ? responses === 'translated' : route !== dialect;
  const asked = isTranslated ? [] : requestedTiers(call);
  if (reported === undefined) return asked;
  const tier = parseStringMember(body, spans.members.get('service_tier'));
  const names = new Set([...reported.split('+'), ...asked.filter((name) => name !== tier)]);
  return [...names].filter(isOtherTier);
}

/** OpenAI reports uses of the preview, which has its own price, as `web_search`. */
function namedAsRequested(call: Call, price: Price | null, tools: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  const { web_search: searches, ...others } = tools;
  if (searches === undefined || price === null) return tools;
  const requested = requestedTools(call, price);
  const isPreview = requested.web_search_preview !== undefined && requested.web_search === undefined;
  return isPreview ? { ...others, web_search_preview: searches } : tools;
}
