import { describe, expect, test } from '@jest/globals';
import { parseVendorError } from '../../../src/dialects/contract/vendor-error.ts';

const nothing = { message: null, code: null, type: null, param: null, windowTokens: null };

test.each<[string, object]>([
  // OpenAI and compatible vendors
  [
    '{"error":{"message":"Unsupported value","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}',
    { message: 'Unsupported value', type: 'invalid_request_error', param: 'temperature', code: 'unsupported_value' },
  ],
  ['{"error":{"message":"x","type":"None","param":"None","code":"400"}}', { message: 'x' }],
  ['{"object":"error","message":"x","type":"BadRequestError","param":null,"code":400}', { message: 'x', type: 'BadRequestError' }],
  [
    '{"object":"error","message":"x","type":"invalid_request_error","code":"3051"}',
    { message: 'x', type: 'invalid_request_error', code: '3051' },
  ],
  // Anthropic
  [
    '{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too large","details":{"error_code":"e_1"}}}',
    { message: 'max_tokens: too large', type: 'invalid_request_error', code: 'e_1', details: { error_code: 'e_1' } },
  ],
  // Google and its chat endpoint
  [
    '{"error":{"code":400,"message":"x","status":"INVALID_ARGUMENT","details":[{"fieldViolations":[{"field":"seed"}]},{"reason":"BAD_SEED"}]}}',
    { message: 'x', type: 'INVALID_ARGUMENT', param: 'seed', code: 'BAD_SEED' },
  ],
  ['[{"error":{"code":404,"message":"x","status":"NOT_FOUND"}}]', { message: 'x', type: 'NOT_FOUND' }],
  // FastAPI, ElevenLabs, Cloudflare and NVIDIA
  [
    '{"detail":[{"type":"missing","loc":["body","messages",0],"msg":"Field required"}]}',
    { message: 'Field required', code: 'missing', param: 'messages.0' },
  ],
  ['{"detail":{"status":"quota_exceeded","message":"x"}}', { message: 'x', type: 'quota_exceeded' }],
  ['{"errors":[{"message":"x","code":5006}],"success":false}', { message: 'x', code: '5006' }],
  ['{"type":"about:blank","title":"HTTP 422","status":422,"detail":"x"}', { message: 'x' }],
  // MiniMax
  ['{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}', { message: 'insufficient balance' }],
  ['{"choices":[],"base_resp":{"status_code":0,"status_msg":"success"}}', {}],
  // Plain text, and bodies without any information
  ['{"error":"text"}', { message: 'text' }],
  ['{"message":"no such document"}', { message: 'no such document' }],
  ['{"detail":"not authorised"}', { message: 'not authorised' }],
  ['{"error":{"message":null,"code":{},"param":["a"],"type":7}}', {}],
  ['[]', {}],
  ['<html>', {}],
  ['', {}],
])('reads the vendor error %s', (text, said) => {
  expect(parseVendorError(Buffer.from(text))).toEqual({ ...nothing, ...said });
});

describe('a prompt that is too long for the model', () => {
  test.each<[string, string, number | null]>([
    ['OpenAI', "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens.", 128_000],
    [
      'OpenAI, newer models',
      'Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 305127 tokens.',
      272_000,
    ],
    ['OpenAI responses', 'Your input exceeds the context window of this model. Please adjust your input and try again.', null],
    ['Anthropic', 'prompt is too long: 214431 tokens > 200000 maximum', 200_000],
    [
      'Anthropic, with max_tokens',
      'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length',
      200_000,
    ],
    ['Google', 'The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).', 1_048_575],
    ['Mistral', 'Prompt contains 300000 tokens, too large for model with 131072 maximum context length', 131_072],
    ['xAI', "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072],
    ['Google, newer models', 'The input token count exceeds the maximum number of tokens allowed 1048576.', 1_048_576],
    ['Cohere', 'too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 130000.', null],
    [
      'LiteLLM, which quotes its vendor',
      `litellm.BadRequestError: Error code: 400 - {'error': {'message': "This model's maximum context length is 8192 tokens.", 'param': 'messages'}}`,
      8192,
    ],
    ['Groq', 'Please reduce the length of the messages or completion.', null],
    ['Cerebras', 'Current length is 9000 while limit is 8192', 8192],
    ['vLLM', 'The decoder prompt (length 5000) is longer than the maximum model length of 4096.', 4096],
    ['SGLang', "The input (9000 tokens) is longer than the model's context length (4096 tokens).", 4096],
    ['llama.cpp', 'the request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it', 8192],
    ['Ollama', 'prompt too long; exceeded max context length by 4096 tokens', null],
    ['Bedrock', 'Input is too long for requested model.', null],
    ['Moonshot', 'Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)', 262_144],
    ['Cloudflare', 'The estimated number of tokens (262334) exceeded this model context window limit (262144)', 262_144],
  ])('recognizes a prompt that is too long in errors from %s', (_vendor, message, windowTokens) => {
    const bodies = [{ error: { message, type: 'invalid_request_error', code: 400 } }, { object: 'error', message }, { detail: message }];
    for (const body of bodies)
      expect(parseVendorError(Buffer.from(JSON.stringify(body)))).toMatchObject({ message, code: 'context_length_exceeded', windowTokens });
  });

  test.each<[string, object]>([
    [
      'quotes the phrase in quotation marks',
      { message: 'messages.0.content: Input should be a list, got "the prompt is too long, really"' },
    ],
    [
      'quotes the phrase in apostrophes',
      { message: "Invalid value: 'maximum context length'. Supported values are: 'low'.", param: 'messages[0]' },
    ],
    ['is about another member', { message: 'tool description exceeds the maximum context length of 1024', param: 'tools[0].description' }],
    ['limits the output', { message: 'max_output_tokens exceeds the maximum number of tokens allowed (8192)' }],
    ['limits the rate', { message: 'too many tokens per minute' }],
  ])("doesn't report a prompt as too long for an error that %s", (_what, error) => {
    expect(parseVendorError(Buffer.from(JSON.stringify({ error })))).toMatchObject({ code: null, windowTokens: null });
  });

  test.each(['context_length_exceeded', 'exceed_context_size_error'])(
    'recognizes a prompt that is too long by the error code or type %s alone',
    (name) => {
      for (const error of [{ code: name }, { type: name }])
        expect(parseVendorError(Buffer.from(JSON.stringify({ error })))).toMatchObject({ code: 'context_length_exceeded' });
    },
  );

  test.each([
    'max_tokens is too large: 50000. This model supports at most 16384 completion tokens',
    'Rate limit reached for requests',
    "Invalid 'messages[0].content': string too long.",
  ])('leaves other vendor errors unchanged: %s', (message) => {
    expect(parseVendorError(Buffer.from(JSON.stringify({ error: { message, code: 'other' } })))).toMatchObject({ code: 'other' });
  });
});
