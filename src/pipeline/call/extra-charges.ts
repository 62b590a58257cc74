/**
 * Handles what vendors bill in addition to tokens at the standard price, i.e. other service tiers and the tools that
 * vendors run themselves. See docs/vendors.md#extra-charges.
 */
import { type Call, isPromptRoute } from '../../core/call.ts';
import type { Candidate } from '../../core/candidate.ts';
import { scanElements, scanMembers } from '../../core/json/spans.ts';
import type { CallUnits, Price } from '../../core/pricing.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { hidesAscii, parsePositiveInteger, parseStringMember } from '../../dialects/json/body-members.ts';
import { countAddedUses, findAddedTools, toToolName } from '../../dialects/routes/added-tools.ts';

/**
 * If the request limits neither a tool (`max_uses`) nor all tools together (`max_tool_calls`), we assume that the
 * vendor uses the tool this many times.
 */
const defaultToolUses = 10;
/** Service tiers without a surcharge. We include `scale` because it's paid in advance. */
const standardTiers: ReadonlySet<string> = new Set([
  ...['auto', 'default', 'standard', 'standard_only', 'on_demand', 'scale', 'global', 'not_available'],
]);
const toolKeys: ReadonlySet<string> = new Set(['type', 'max_uses']);

/** Returns the non-standard tiers that a request asks for by name. */
export function requestedTiers({ body, spans: { members } }: Call): readonly string[] {
  const names = ['service_tier', 'speed', 'inference_geo'].flatMap((key) => parseStringMember(body, members.get(key)) ?? []);
  return names.filter(isOtherTier);
}

/** We store the tier's name with the call, so we only accept something that looks like a name. */
function isOtherTier(name: string): boolean {
  return !standardTiers.has(name) && /^[\w.-]{1,63}$/.test(name);
}

/**
 * Returns how often the request allows each priced tool to be used. Most calls have no tools, so we avoid parsing if
 * possible.
 */
export function requestedTools({ route, body, spans: { members } }: Call, price: Price): Readonly<Record<string, number>> {
  const { perToolUseNanos } = price;
  const uses: Record<string, number> = {};
  if (perToolUseNanos === undefined) return uses;
  // On the chat route, search models run exactly one search per call.
  if (route === 'chat' && members.get('web_search_options')?.kind === 'object' && Object.hasOwn(perToolUseNanos, 'web_search')) {
    uses.web_search = 1;
  }
  const most = parsePositiveInteger(body, members.get('max_tool_calls')) ?? defaultToolUses;
  const added = isPromptRoute(route) ? findAddedTools(body) : null;
  if (added !== null)
    for (const name of Object.keys(perToolUseNanos)) {
      const count = countAddedUses(added, name, most);
      if (count > 0) uses[name] = (uses[name] ?? 0) + count;
    }
  const tools = members.get('tools');
  if (tools?.kind !== 'array') return uses;
  const text = body.subarray(tools.value.start, tools.value.end);
  if (!Object.keys(perToolUseNanos).some((name) => text.includes(name)) && !hidesAscii(text)) return uses;
  for (const { kind, value } of scanElements(body, tools.value.start)) {
    if (kind !== 'object') continue;
    const tool = scanMembers(body, value.start, toolKeys);
    const name = toToolName(parseStringMember(body, tool.members.get('type')) ?? '');
    if (!Object.hasOwn(perToolUseNanos, name)) continue;
    uses[name] = (uses[name] ?? 0) + (parsePositiveInteger(body, tool.members.get('max_uses')) ?? most);
  }
  return uses;
}

/**
 * Returns what else a response is billed for apart from tokens, i.e. service tiers and hosted tools. Null for most
 * calls. `isPriced` is true if the catalog has a price for each of them.
 */
export function extraUnits(
  call: Call,
  candidate: Candidate,
  { serviceTier, toolUses }: ResponseSummary,
): { readonly units: Pick<CallUnits, 'serviceTier' | 'toolUses'>; readonly isPriced: boolean } | null {
  const { members } = call.spans;
  const asksForTier = members.has('service_tier') || members.has('speed') || members.has('inference_geo');
  const asksForSearch = call.route === 'chat' && members.get('web_search_options')?.kind === 'object';
  if (!asksForTier && !asksForSearch && toolUses === undefined && (serviceTier === undefined || standardTiers.has(serviceTier)))
    return null;
  const { price } = candidate;
  const tiers = usedTiers(call, candidate, serviceTier);
  const tools = namedAsRequested(
    call,
    price,
    toolUses ?? (asksForSearch && price ? { web_search: 1, ...requestedTools(call, price) } : {}),
  );
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
 * Returns the service tiers that apply to a response. For `service_tier` we use what the vendor reports, because it may
 * have fallen back to the standard tier. Speed and region are taken from the request, because a vendor that can't
 * provide them rejects the call. None of these fields matters if we translated the request, because the vendor never
 * saw them.
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

/** OpenAI also reports uses of `web_search_preview` as `web_search`, although the preview has its own price. */
function namedAsRequested(call: Call, price: Price | null, tools: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  const { web_search: searches, ...others } = tools;
  if (searches === undefined || price === null) return tools;
  const requested = requestedTools(call, price);
  const isPreview = requested.web_search_preview !== undefined && requested.web_search === undefined;
  return isPreview ? { ...others, web_search_preview: searches } : tools;
}
