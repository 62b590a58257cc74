import { expect, test } from '@jest/globals';
import { chat } from '../../../src/dialects/chat/codec.ts';
import { readBillingReport } from '../../../src/dialects/contract/billing-report.ts';
import { messages } from '../../../src/dialects/messages/codec.ts';
import { responses } from '../../../src/dialects/passthrough/responses.ts';
import { readStream, streamOf } from '../events.ts';

test.each<[string, object, object]>([
  ['nothing from plain usage', { usage: { prompt_tokens: 1, completion_tokens: 2 } }, {}],
  ["OpenAI's tier", { service_tier: 'priority', usage: {} }, { serviceTier: 'priority' }],
  ["Anthropic's tier", { usage: { service_tier: 'standard', inference_geo: 'not_available' } }, { serviceTier: 'standard' }],
  ["Anthropic's fast mode", { usage: { service_tier: 'standard', speed: 'fast' } }, { serviceTier: 'fast' }],
  ["Anthropic's region", { usage: { service_tier: 'priority', speed: 'fast', inference_geo: 'us' } }, { serviceTier: 'priority+fast+us' }],
  ['nothing from a tier that is not a name', { service_tier: 'x'.repeat(65) }, {}],
  [
    "Anthropic's server tools",
    { usage: { server_tool_use: { web_search_requests: 3, web_fetch_requests: 0 } } },
    { toolUses: { web_search: 3 } },
  ],
  [
    "xAI's server tools without counting their output items again",
    { usage: { server_side_tool_usage_details: { x_search_calls: 2, mcp_calls: 0 } }, output: [{ type: 'web_search_call' }] },
    { toolUses: { x_search: 2 } },
  ],
  [
    'calls of hosted tools',
    {
      output: [
        { type: 'web_search_call', action: { type: 'search', query: 'a' } },
        { type: 'web_search_call', action: { type: 'open_page', url: 'b' } },
        { type: 'web_search_call' },
        { type: 'file_search_call' },
        { type: 'code_interpreter_call', container_id: 'c1' },
        { type: 'code_interpreter_call', container_id: 'c1' },
        { type: 'code_interpreter_call', container_id: 'c2' },
        { type: 'image_generation_call', result: 'AAAA' },
        { type: 'function_call', name: 'f' },
        { type: 'message' },
        null,
      ],
    },
    { toolUses: { web_search: 2, file_search: 1, code_interpreter: 2, image_generation: 1 } },
  ],
  ["OpenRouter's cost", { usage: { cost: 0.00123456789 } }, { reportedCostNanos: 1_234_568 }],
  [
    "OpenRouter's fee with the caller's own key, and the cost at the upstream vendor",
    { usage: { cost: 0.001, is_byok: true, cost_details: { upstream_inference_cost: 0.02 } } },
    { reportedCostNanos: 21_000_000 },
  ],
  [
    "OpenRouter's cost, which includes the upstream cost",
    { usage: { cost: 0.02, is_byok: false, cost_details: { upstream_inference_cost: 0.019 } } },
    { reportedCostNanos: 20_000_000 },
  ],
  [
    "uses of tools that are named like an object's inherited properties",
    { usage: {}, output: [{ type: 'constructor_call' }, { type: 'constructor_call' }, { type: 'toString_call' }] },
    { toolUses: { constructor: 2, toString: 1 } },
  ],
  ["xAI's cost in ticks", { usage: { cost_in_usd_ticks: 318_319_000 } }, { reportedCostNanos: 31_831_900 }],
  [
    'that other models took part',
    { usage: { iterations: [{ type: 'message' }, { type: 'advisor_message', model: 'm' }] } },
    { usesOtherModels: true },
  ],
  ['that a fallback model responded', { usage: { iterations: [{ type: 'fallback_message' }] } }, { usesOtherModels: true }],
  ['nothing from iterations of the requested model', { usage: { iterations: [{ type: 'compaction' }, { type: 'message' }, null] } }, {}],
  ['nothing from a negative cost', { usage: { cost: -1 } }, {}],
  ['nothing from a cost that is an object', { usage: { cost: { total: 1 } } }, {}],
])("reads from a vendor's usage: %s", (_what, response, report) => {
  expect(readBillingReport({ ...response })).toEqual(report);
});

test("reads the vendor's billed cost and service tier from a stream", () => {
  const chatReader = chat.createStreamReader();
  const delta = (content: string) => ({ service_tier: 'flex', choices: [{ index: 0, delta: { content }, finish_reason: null }] });
  readStream(chatReader, streamOf(delta('a'), delta('b')));
  expect(chatReader.summary()).toMatchObject({ serviceTier: 'flex' });
  const usage = { prompt_tokens: 1, completion_tokens: 2, cost: 0.5 };
  readStream(chatReader, streamOf({ choices: [], usage, service_tier: 'default' }));
  expect(chatReader.summary()).toMatchObject({ serviceTier: 'default', reportedCostNanos: 500_000_000 });

  const messagesReader = messages.createStreamReader();
  const message = { content: [], usage: { input_tokens: 1, output_tokens: 1, service_tier: 'standard' } };
  readStream(
    messagesReader,
    streamOf(
      { type: 'message_start', message },
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn' },
        usage: { output_tokens: 5, server_tool_use: { web_search_requests: 2 } },
      },
    ),
  );
  expect(messagesReader.summary()).toMatchObject({ serviceTier: 'standard', toolUses: { web_search: 2 } });

  const responsesReader = responses.createStreamReader();
  const item = { type: 'web_search_call', action: { type: 'search' } };
  readStream(responsesReader, streamOf({ type: 'response.output_item.done', output_index: 0, item }));
  expect(responsesReader.summary()).toMatchObject({ toolUses: { web_search: 1 } });
  readStream(responsesReader, streamOf({ type: 'response.completed', response: { service_tier: 'priority', output: [item, item] } }));
  expect(responsesReader.summary()).toMatchObject({ serviceTier: 'priority', toolUses: { web_search: 2 } });
});
