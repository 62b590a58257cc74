import { describe, expect, test } from '@jest/globals';
import { parseImportedRows } from '../../src/config/catalog.ts';
import { convertPriceTable, type TableProvider } from '../../src/config/price-table.ts';

const chatRoutes = ['chat', 'embeddings', 'responses', 'moderations', 'rerank', 'images', 'speech', 'transcriptions'];
const provider = (name: string, tableNames: string[], serves = chatRoutes): TableProvider => ({ name, tableNames, serves });

/** Converts one entry of the vendor `v` for the provider `p`. Returns the row, or the reason why it was skipped. */
function convert(fields: string, entry = 'm', serves?: string[]): unknown {
  const text = `{"sample_spec": {"litellm_provider": "v"}, ${JSON.stringify(entry)}: {"litellm_provider": "v", ${fields}}}`;
  const { models, skipped } = convertPriceTable(text, [provider('p', ['v'], serves)]);
  const [row] = Object.values(models);
  return row ?? skipped[0]?.reason;
}

describe('entries in the public price table', () => {
  test.each([
    [
      'chat, with caches and limits',
      '"mode": "chat", "input_cost_per_token": 1.5e-07, "output_cost_per_token": 6e-07, "cache_read_input_token_cost": 7.5e-08, "max_input_tokens": 128000, "max_output_tokens": 16384.0',
      { reasons: false, input: '0.15', output: '0.6', cached_input: '0.075', max_input_tokens: 128_000, max_output_tokens: 16_384 },
    ],
    [
      'digits that floating point would lose',
      '"mode": "chat", "input_cost_per_token": 1.00000000000000000001e-06, "output_cost_per_token": 0.000000300',
      { reasons: false, input: '1.00000000000000000001', output: '0.3' },
    ],
    [
      'higher prices for long calls',
      '"mode": "responses", "input_cost_per_token": 2e-06, "output_cost_per_token": 8e-06, "input_cost_per_token_above_200k_tokens": 4e-06, "cache_read_input_token_cost_above_200k_tokens": 4e-07, "input_cost_per_token_above_272k_tokens": 5e-06, "output_cost_per_token_above_272k_tokens": 9e-06, "input_cost_per_token_above_200k_tokens_priority": 9e-06',
      {
        serves: ['responses'],
        reasons: false,
        input: '2',
        output: '8',
        above_tokens: { 200000: { input: '4', output: '8', cached_input: '0.4' }, 272000: { input: '5', output: '9' } },
      },
    ],
    [
      'cache writes',
      '"mode": "chat", "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, "cache_creation_input_token_cost": 3.75e-06, "cache_creation_input_token_cost_above_1hr": 6e-06, "max_tokens": 64000',
      { reasons: false, input: '3', output: '15', cache_write: '3.75', cache_write_1h: '6', max_output_tokens: 64_000 },
    ],
    [
      'service tiers as factors',
      '"mode": "chat", "input_cost_per_token": 1.5e-07, "output_cost_per_token": 6e-07, "input_cost_per_token_priority": 2.5e-07, "output_cost_per_token_priority": 1e-06, "output_cost_per_token_flex": 3e-07, "provider_specific_entry": {"fast": 6.0, "us": 1.1, "other": 3}',
      {
        ...{ reasons: false, input: '0.15', output: '0.6' },
        service_tiers: { priority: '1.666667', flex: '0.5', fast: '6', us: '1.1' },
      },
    ],
    [
      'a price of zero',
      '"mode": "chat", "input_cost_per_token": 0, "output_cost_per_token": 0.0, "supports_reasoning": true',
      { reasons: true, input: '0', output: '0' },
    ],
    [
      'embeddings',
      '"mode": "embedding", "input_cost_per_token": 2e-08, "output_cost_per_token": 0.0, "max_tokens": 8191',
      { kind: 'embeddings', input: '0.02' },
    ],
    ['moderations', '"mode": "moderation", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0', { kind: 'moderations' }],
    [
      'rerank by search',
      '"mode": "rerank", "input_cost_per_query": 0.002, "input_cost_per_token": 0.0',
      { kind: 'rerank', per_search: '0.002' },
    ],
    [
      'rerank by tokens',
      '"mode": "rerank", "input_cost_per_token": 5e-08, "output_cost_per_token": 0.0',
      { kind: 'rerank', input: '0.05' },
    ],
    [
      'images by token',
      '"mode": "image_generation", "input_cost_per_token": 5e-06, "output_cost_per_token": 1e-05, "output_cost_per_image_token": 4e-05',
      { kind: 'images', input: '5', output: '40' },
    ],
    [
      'image tokens in the input',
      '"mode": "image_generation", "input_cost_per_token": 5e-06, "output_cost_per_token": 3e-05, "input_cost_per_image_token": 8e-06',
      { kind: 'images', input: '5', image_input: '8', output: '30' },
    ],
    [
      'images by image',
      '"mode": "image_generation", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0, "output_cost_per_image": 0.04',
      { kind: 'images', per_image: '0.04' },
    ],
    [
      'speech by character',
      '"mode": "audio_speech", "input_cost_per_character": 1.5e-05',
      { kind: 'speech', per_million_characters: '15' },
    ],
    [
      'speech by token',
      '"mode": "audio_speech", "input_cost_per_token": 6e-07, "output_cost_per_token": 1e-05, "output_cost_per_audio_token": 1.2e-05',
      { kind: 'speech', input: '0.6', output: '12' },
    ],
    [
      'transcriptions by token',
      '"mode": "audio_transcription", "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05, "input_cost_per_second": 0.0001',
      { kind: 'transcriptions', input: '2.5', output: '10' },
    ],
    [
      'transcriptions by second',
      '"mode": "audio_transcription", "input_cost_per_second": 0.0001, "output_cost_per_second": 0.0001',
      { kind: 'transcriptions', per_second: '0.0001' },
    ],
  ])('imports from the price table: %s', (_title, fields, row) => {
    expect(convert(fields)).toEqual(row);
    expect(parseImportedRows({ 'p/m': row }, () => ({ dialect: 'chat', vendor: null })).errors).toEqual([]);
  });

  test.each([
    ['', { supports_schema: false, thinking: 'none' }],
    ['"supports_reasoning": true, "supports_response_schema": true', {}],
    ['"supports_reasoning": true, "supports_native_structured_output": true', { supports_schema: true }],
    ['"supports_response_schema": true', { thinking: 'none' }],
  ])('reads the capabilities of a messages model with %s', (abilities, row) => {
    const priced = '"mode": "chat", "input_cost_per_token": 0, "output_cost_per_token": 0';
    const price = { input: '0', output: '0' };
    expect(convert(abilities === '' ? priced : `${priced}, ${abilities}`, 'm', ['messages'])).toEqual({ ...row, ...price });
  });

  test('imports prices per second for providers that serve video', () => {
    expect(convert('"mode": "video_generation", "output_cost_per_second": 0.4', 'm', ['video'])).toEqual({
      kind: 'video',
      per_second: '0.4',
    });
    expect(convert('"mode": "video_generation", "output_cost_per_video_per_second": 0.1', 'm', ['video'])).toMatchObject({
      per_second: '0.1',
    });
  });

  test.each([
    ['"mode": "toString", "input_cost_per_second": 0.0001', 'm', 'no route serves the mode toString'],
    ['"input_cost_per_token": 1e-06', 'm', 'has no mode'],
    ['"mode": "video_generation", "output_cost_per_second": 0.4', 'm', 'the provider p does not serve video'],
    ['"mode": "chat", "input_cost_per_token": 1e-06', 'm', 'has no price for tokens'],
    ['"mode": "chat", "input_cost_per_token": -1, "output_cost_per_token": 1', 'm', 'input_cost_per_token is not a valid price'],
    ['"mode": "chat", "input_cost_per_token": {}, "output_cost_per_token": 1', 'm', 'input_cost_per_token is not a valid price'],
    [
      '"mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06, "input_cost_per_request": 0.005',
      'm',
      'also charged per request, which is not supported',
    ],
    ['"mode": "image_generation", "input_cost_per_pixel": 1.9e-08', 'm', 'charged per pixel, which is not supported'],
    [
      '"mode": "image_generation", "input_cost_per_image": 0.04',
      'hd/1024-x-1024/m',
      'priced per image size, but a row can only have one price per image',
    ],
    ['"mode": "chat", "input_cost_per_token": 1', 'ft:m', 'stands for fine-tuned models, whose full names are not listed'],
    ['"mode": "chat", "input_cost_per_token": 1', 'v/*', 'has a wildcard that matches several models'],
    ['"mode": "chat", "input_cost_per_token": 1', 'a b', 'its name contains a character that is not allowed in model ids'],
  ])('skips the price table entry %s of %s: %s', (fields, entry, reason) => {
    expect(convert(fields, entry)).toBe(reason);
  });
});

describe('the public price table', () => {
  const price = { mode: 'chat', input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 };
  const table = JSON.stringify({
    sample_spec: { litellm_provider: 'one of the list' },
    rules: [1, 2],
    'gpt-x': { litellm_provider: 'openai', ...price },
    'openai/gpt-x': { litellm_provider: 'openai', ...price },
    'openai/gpt-y': { litellm_provider: 'openai', ...price },
    'gpt-y': { litellm_provider: 'openai', ...price, input_cost_per_token: 2e-6 },
    'groq/openai/gpt-oss': { litellm_provider: 'groq', ...price },
    'fireworks_ai/accounts/e': { litellm_provider: 'fireworks_ai-embedding-models', mode: 'embedding', input_cost_per_token: 1e-8 },
    'azure/gpt-x': { litellm_provider: 'azure', ...price },
  });

  test("imports a vendor's price table entries for each of its providers", () => {
    const {
      models,
      skipped,
      unmatched: foreign,
    } = convertPriceTable(table, [
      provider('mine', ['openai']),
      provider('second', ['openai']),
      provider('groq', ['groq']),
      provider('fire', ['fireworks_ai', 'fireworks_ai-embedding-models']),
    ]);
    expect(Object.keys(models)).toEqual([
      ...['mine/gpt-x', 'second/gpt-x', 'mine/gpt-y', 'second/gpt-y'],
      ...['groq/openai/gpt-oss', 'fire/accounts/e'],
    ]);
    expect(models['mine/gpt-y']).toMatchObject({ input: '1' });
    expect(skipped).toEqual([
      { entry: 'gpt-y', reason: 'duplicate entry; the first one is used' },
      { entry: 'gpt-y', reason: 'duplicate entry; the first one is used' },
    ]);
    expect(foreign).toBe(1);
  });

  test("rejects text that isn't a price table", () => {
    expect(() => convertPriceTable('{', [])).toThrow(SyntaxError);
    for (const text of ['[]', '{}', '7', '{"a": {"price": 1}}']) expect(() => convertPriceTable(text, [])).toThrow(RangeError);
  });
});
