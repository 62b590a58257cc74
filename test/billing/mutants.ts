/**
 * Defects that lose money. The billing oracle has to find all of them. The first ones were real bugs of the gateway
 * that existed before the oracle.
 */
import type { Mutant } from '../simulation/mutants.ts';
import type { Sentence } from './invariants.ts';

export interface BillingMutant extends Mutant {
  /** The promise that the mutant breaks. */
  readonly breaks: Sentence;
  /**
   * We try this seed first because it found the mutant before. Call order depends on the machine, so it may take
   * another seed.
   */
  readonly seeds: number;
}

const bounds = 'src/pipeline/call/usage-bounds.ts';
const charge = 'src/pipeline/call/charge.ts';
const serveCall = 'src/pipeline/call/serve-call.ts';

export const billingMutants: readonly BillingMutant[] = [
  {
    name: 'a call without a limit reserves 4,096 tokens',
    file: bounds,
    passage: 'const most = candidate.maxOutputTokens ??',
    replacement: 'const most = 4_096 ??',
    breaks: 'cost',
    seeds: 2,
  },
  {
    name: 'a call reserves one choice of several',
    file: bounds,
    passage: 'clampToSafeInteger(countChoices(call) * (',
    replacement: 'clampToSafeInteger((',
    breaks: 'cost',
    seeds: 117,
  },
  {
    name: 'every image is bounded by 2,000 tokens',
    file: bounds,
    passage: 'images * (candidate.imageTokens ?? defaultTokensPerImage)',
    replacement: 'images * 2_000',
    breaks: 'cost',
    seeds: 25,
  },
  {
    name: 'the first of two limits is reserved',
    file: 'src/dialects/json/body-members.ts',
    passage: 'limit = Math.max(limit ?? 0, value)',
    replacement: 'limit ??= value',
    breaks: 'cost',
    seeds: 25,
  },
  {
    name: 'only the first choice of a stream is counted',
    file: 'src/dialects/chat/codec.ts',
    passage: 'const characters = countChoices(choices);',
    replacement: 'const characters = countChoices(choices.filter((choice) => asObject(choice).index === 0));',
    breaks: 'delivered',
    seeds: 52,
  },
  {
    name: 'only the text of responses is counted',
    file: 'src/dialects/passthrough/responses.ts',
    passage: 'generatedCharacters: countGeneratedText(response.output),',
    replacement: 'generatedCharacters: readAssistantTurn(response).text.length,',
    breaks: 'delivered',
    seeds: 46,
  },
  {
    name: 'a background response is charged by its prompt',
    file: charge,
    passage: 'if (summary.isPending) return',
    replacement: 'if (summary.isPending && call.stream) return',
    breaks: 'background',
    seeds: 8,
  },
  {
    name: 'every service tier costs the standard price',
    file: 'src/pipeline/call/extra-charges.ts',
    passage: "...(tiers.length > 0 && { serviceTier: tiers.join('+') }),",
    replacement: '',
    breaks: 'exact',
    seeds: 2,
  },
  {
    name: 'web searches of the vendor are free',
    file: 'src/pipeline/call/extra-charges.ts',
    passage: '...(Object.keys(tools).length > 0 && { toolUses: tools }),',
    replacement: '',
    breaks: 'exact',
    seeds: 1,
  },
  {
    name: 'cache writes of OpenAI cost what input costs',
    file: 'src/dialects/contract/token-usage.ts',
    passage: 'return asCount(written) ?? asCount(created) ?? 0;',
    replacement: 'return 0 * (asCount(written) ?? asCount(created) ?? 0);',
    breaks: 'exact',
    seeds: 2,
  },
  {
    name: 'a failure of the output rules leaves the reservation',
    file: serveCall,
    passage: 'if (chain.isJournaled) throw await settleUnexpected(',
    replacement: 'if (chain.isJournaled) throw cause;\n      if (chain.isJournaled) throw await settleUnexpected(',
    breaks: 'reserved',
    seeds: 3,
  },
  {
    name: 'compactions of the prompt are free',
    file: 'src/dialects/contract/token-usage.ts',
    passage: "new Set(['compaction', 'advisor_message'])",
    replacement: "new Set(['advisor_message'])",
    breaks: 'exact',
    seeds: 23,
  },
  {
    name: 'usage that comes before the content is final',
    file: 'src/dialects/chat/codec.ts',
    passage: ' && countedCharacters === generatedCharacters',
    replacement: '',
    breaks: 'exact',
    seeds: 14,
  },
  {
    name: 'usage of a message without output tokens is final',
    file: 'src/dialects/contract/token-usage.ts',
    passage: 'isComplete: (): boolean => knowsInput && knowsOutput,',
    replacement: 'isComplete: (): boolean => knowsInput,',
    breaks: 'exact',
    seeds: 154,
  },
  {
    name: 'a call with an unusable image is free',
    file: 'src/vendors/images.ts',
    passage: "problem ??= unreadable('an image in the response has neither b64_json nor url', status);",
    replacement: "throw unreadable('an image in the response has neither b64_json nor url', status);",
    breaks: 'exact',
    seeds: 1,
  },
];
