/** Decides what a scripted model generates for a request, and what its vendor bills. */
import { noTokens, type Tokens } from '../../src/core/pricing.ts';
import type { VendorModel } from './models.ts';

/**
 * How vendors respond to the requests of one call. The vendor looks the script up by the call's name, which is in the
 * prompt.
 */
export interface VendorScript {
  /** How many tokens the model would generate for each choice if neither the request nor the model had a limit. */
  readonly wanted: number;
  /** How many of the wanted tokens are visible output. The model spends the rest on reasoning. */
  readonly visible: number;
  /** How many reasoning tokens the vendor includes in the response. */
  readonly shownReasoning: number;
  /** If true, the second half of the visible tokens is the arguments of a tool call. */
  readonly callsTool: boolean;
  /** The text starts with this string. */
  readonly opening: string;
  /** The fraction of the input that the vendor reads from its cache. */
  readonly cachedShare: number;
  /** The fraction of the remaining input that the vendor writes to its cache. */
  readonly writtenShare: number;
  readonly webSearches: number;
  /** If true, the vendor summarizes the prompt first, provided that the request allows it. */
  readonly compacts: boolean;
  /** How many of the requested images the vendor's filter removes. */
  readonly filteredImages: number;
  /** If true, the requested service tier has no capacity and the vendor falls back to the standard tier. */
  readonly isTierFull: boolean;
  readonly usage: UsageStyle;
  readonly firstByteMs: number;
  /** Delay between the chunks of a stream. */
  readonly pauseMs: number;
  readonly chunkTokens: number;
  /** How providers fail, by name. A provider that isn't listed works normally. */
  readonly failures: Readonly<Record<string, VendorFailure>>;
}

/** With `before the content`, a stream only reports the input and the first output, as if the vendor had broken off. */
export type UsageStyle = 'at the end' | 'with the finish' | 'in every chunk' | 'before the content' | 'missing';

/**
 * The first three happen before the model generates anything, so the vendor bills nothing. A broken response is
 * billed.
 */
export type VendorFailure = 'status 500' | 'status 429' | 'closed connection' | 'broken response';

/** Token counts of one choice, in the order in which the model generates the tokens. */
export interface Choice {
  readonly hidden: number;
  readonly reasoning: number;
  readonly text: number;
  readonly argument: number;
  readonly isCutOff: boolean;
}

export interface Generation {
  readonly script: VendorScript;
  readonly model: VendorModel;
  readonly input: Tokens;
  readonly images: number;
  readonly choices: readonly Choice[];
  readonly webSearches: number;
  /** What the vendor bills for summarizing the prompt. Anthropic doesn't include it in the other token counts. */
  readonly compaction: Tokens;
  readonly tier: string;
  readonly isBackground: boolean;
}

/** Thrown if the vendor rejects a request. Rejected requests aren't billed. */
export class RejectedRequest extends Error {
  override readonly name = 'RejectedRequest';
}

export type Body = Readonly<Record<string, unknown>>;

const limitFields = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'];

export function generate(body: Body, model: VendorModel, script: VendorScript): Generation {
  const limits = limitFields.flatMap((field) => positiveInteger(body, field) ?? []);
  if (model.dialect === 'messages' && limits.length === 0) throw new RejectedRequest('max_tokens: Field required');
  // We can't predict which field a vendor honours if it knows several, so we assume that it takes the larger one.
  const limit = Math.min(model.maxOutputTokens, limits.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...limits));
  const count = model.dialect === 'messages' ? 1 : (positiveInteger(body, 'n') ?? 1);
  if (count > 16) throw new RejectedRequest('n: must be at most 16');
  const output = Math.min(script.wanted, limit);
  const visible = Math.min(script.visible, output);
  const reasoning = Math.min(script.shownReasoning, output - visible);
  const size = measure(body);
  const argument = script.callsTool ? Math.floor(visible / 2) : 0;
  const webSearches = model.prices.perWebSearch > 0 && searchesTheWeb(body) ? Math.min(script.webSearches, maxSearches(body)) : 0;
  const input = inputOf(body, model, script, size);
  const choice: Choice = {
    hidden: output - visible - reasoning,
    reasoning,
    text: visible - argument,
    argument,
    isCutOff: script.wanted > limit,
  };
  return {
    script,
    model,
    input: { ...input, input: input.input + webSearches * model.tokensPerWebSearch },
    images: size.images,
    choices: Array.from({ length: count }, () => choice),
    webSearches,
    compaction: script.compacts && allowsCompaction(body) ? { ...input, output: Math.min(500, limit) } : noTokens,
    tier: script.isTierFull ? 'default' : tierOf(body, model),
    isBackground: body['background'] === true,
  };
}

export function outputTokens({ hidden, reasoning, text, argument }: Choice): number {
  return hidden + reasoning + text + argument;
}

/**
 * Returns null if the field is missing or null, because vendors treat both the same way. Throws for any other invalid
 * value.
 */
function positiveInteger(body: Body, field: string): number | null {
  const value = body[field];
  if (value === undefined || value === null) return null;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1) throw new RejectedRequest(`${field}: must be a positive integer`);
  return value;
}

/** Counts one token per four bytes of text plus `tokensPerImage` for each image, and splits the sum by cache use. */
function inputOf(body: Body, model: VendorModel, script: VendorScript, { textBytes, images }: PromptSize): Tokens {
  const whole = Math.ceil(textBytes / 4) + images * model.tokensPerImage;
  const cachedInput = Math.floor(whole * script.cachedShare);
  const asksForCache = JSON.stringify(body).includes('"cache_control"');
  const writes = model.writesCache || (model.dialect === 'messages' && asksForCache);
  const written = writes ? Math.floor((whole - cachedInput) * script.writtenShare) : 0;
  const isLong = JSON.stringify(body).includes('"ttl":"1h"');
  return {
    input: whole - cachedInput - written,
    cachedInput,
    cacheWrite: isLong ? 0 : written,
    cacheWrite1h: isLong ? written : 0,
    output: 0,
  };
}

interface PromptSize {
  readonly textBytes: number;
  readonly images: number;
}

/** Traverses the body without recursion, because a deeply nested request would overflow the stack. */
function measure(body: Body): PromptSize {
  let textBytes = 0;
  let images = 0;
  const stack: unknown[] = Object.entries(body).flatMap(([name, value]) => (promptMembers.has(name) ? [value] : []));
  for (let value = stack.pop(); value !== undefined; value = stack.pop()) {
    if (typeof value === 'string') textBytes += Buffer.byteLength(value);
    else if (Array.isArray(value)) stack.push(...value.filter((item) => item !== null));
    else if (typeof value === 'object' && value !== null) {
      const { type } = value as Body;
      if (type === 'image_url' || type === 'input_image' || type === 'image') images += 1;
      else stack.push(...Object.values(value).filter((member) => member !== null));
    }
  }
  return { textBytes, images };
}

const promptMembers: ReadonlySet<string> = new Set([
  'messages',
  'system',
  'input',
  'instructions',
  'tools',
  'prompt',
  'query',
  'documents',
]);

function toolsOf({ tools }: Body): Body[] {
  return Array.isArray(tools) ? tools.filter((tool): tool is Body => typeof tool === 'object' && tool !== null) : [];
}

function searchesTheWeb(body: Body): boolean {
  return toolsOf(body).some(({ type }) => typeof type === 'string' && type.startsWith('web_search'));
}

function allowsCompaction(body: Body): boolean {
  return JSON.stringify(body['context_management'] ?? null).includes('"compact_20260112"');
}

function maxSearches(body: Body): number {
  const uses = toolsOf(body).flatMap(({ max_uses: most }) => (typeof most === 'number' ? most : []));
  const calls = body['max_tool_calls'];
  return Math.min(Number.POSITIVE_INFINITY, ...uses, ...(typeof calls === 'number' ? [calls] : []));
}

function tierOf(body: Body, model: VendorModel): string {
  const tier = body['service_tier'] ?? 'auto';
  if (typeof tier !== 'string') throw new RejectedRequest('service_tier: must be a string');
  return tier in model.tierFactors ? tier : 'default';
}
