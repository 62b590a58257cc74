/** Anthropic with its models and list prices. See `../starter-models.ts` for units and dates. */
import type { Models, VendorDescription } from './vendor-description.ts';

/**
 * Models from 4.6 on support adaptive thinking. The 4.5 models need a thinking budget instead, which models from 4.7 on
 * no longer accept.
 */
const adaptive = { supports_schema: true, thinking: 'adaptive' } as const;
const budgeted = { supports_schema: true, thinking: 'budget' } as const;
/** From version 4.6 on, models cost more if the caller asks for inference in the United States. */
const million = { max_input_tokens: 1_000_000, max_output_tokens: 128_000, service_tiers: { us: '1.1' }, ...adaptive };
const small = { max_input_tokens: 200_000, max_output_tokens: 64_000, ...budgeted };

const fable52 = { input: '8', cached_input: '0.20', cache_write: '10', cache_write_1h: '16', output: '40', ...million };
const fable51 = { input: '10', cached_input: '0.25', cache_write: '12.50', cache_write_1h: '20', output: '50', ...million };
const fable5 = { ...fable51, cached_input: '1' };
const opus5 = { input: '5', cached_input: '0.50', cache_write: '6.25', cache_write_1h: '10', output: '25', ...million };
const opus45 = { ...opus5, service_tiers: {}, ...small };
const opus55 = { input: '4', cached_input: '0.20', cache_write: '5', cache_write_1h: '8', output: '20', ...million };
const sonnet5 = { input: '2', cached_input: '0.20', cache_write: '2.50', cache_write_1h: '4', output: '10', ...million };
const sonnet46 = { input: '3', cached_input: '0.30', cache_write: '3.75', cache_write_1h: '6', output: '15', ...million };
const sonnet45 = { ...sonnet46, service_tiers: {}, ...small };
/** Adds a price factor for fast mode (beta), which callers turn on with `speed`. */
const fast = { service_tiers: { us: '1.1', fast: '6' } };
const haiku55 = {
  ...{ input: '0.10', cached_input: '0.01', cache_write: '0.125', cache_write_1h: '0.20', output: '0.50', ...million },
  above_tokens: { 100000: { input: '0.50', cached_input: '0.05', cache_write: '0.625', cache_write_1h: '1', output: '2.50' } },
};
const haiku45 = { input: '1', cached_input: '0.10', cache_write: '1.25', cache_write_1h: '2', output: '5', ...small };

/**
 * Anthropic charges for code execution by the hour, but responses don't say how long a container ran, so we list it as
 * free. For `web_fetch` and `tool_search`, Anthropic only charges for the tokens.
 */
const toolPrices = { web_search: '0.01', web_fetch: '0', code_execution: '0', tool_search: '0' };

export const anthropicModels: Models = {
  'claude-fable-5-2': fable52,
  'claude-fable-5-1': fable51,
  'claude-fable-5': fable5,
  // Mythos is the version of Fable for verified organizations, and has the same prices.
  'claude-mythos-5-2': fable52,
  'claude-mythos-5-1': fable51,
  'claude-mythos-5': fable5,
  'claude-opus-5-5': opus55,
  'claude-opus-5': opus5,
  'claude-opus-4-8': opus5,
  'claude-opus-4-7': { ...opus5, ...fast },
  'claude-opus-4-6': { ...opus5, ...fast },
  'claude-opus-4-5': opus45,
  'claude-opus-4-5-20251101': opus45,
  'claude-sonnet-5-5': { ...sonnet5, cached_input: '0.10' },
  'claude-sonnet-5': sonnet5,
  'claude-sonnet-4-6': sonnet46,
  'claude-sonnet-4-5': sonnet45,
  'claude-sonnet-4-5-20250929': sonnet45,
  'claude-haiku-5-5': haiku55,
  'claude-haiku-4-5': haiku45,
  'claude-haiku-4-5-20251001': haiku45,
};

export const anthropic: VendorDescription = {
  name: 'anthropic',
  title: 'Anthropic',
  documentation: 'https://platform.claude.com/docs/en/api/messages',
  baseUrl: 'https://api.anthropic.com/v1',
  dialect: 'messages',
  models: anthropicModels,
  toolPrices,
  tableNames: ['anthropic'],
  starter: {
    variable: 'ANTHROPIC_API_KEY',
    values: {
      tiers: {
        standard: ['anthropic/claude-haiku-4-5'],
        strong: ['anthropic/claude-sonnet-4-6'],
        trivial: ['anthropic/claude-haiku-4-5'],
      },
    },
  },
};
