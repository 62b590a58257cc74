/**
 * The clients of the matrix as data. A client is a version of a package with one of its APIs. A driver program in the
 * client's language makes the calls.
 */

import { type CaseName, type Vendor, vendors } from './cases.ts';

export type Runtime = 'node' | 'python' | 'go' | 'java' | 'rust';
export type Api = 'chat' | 'messages' | 'responses';

/** Something a client cannot do or see through the gateway, with the reason. */
export interface Exception {
  readonly case: CaseName;
  readonly vendor: Vendor;
  /** The difference that we expect. Anything else is a failure. */
  readonly sees: RegExp;
  /** For docs/clients.md. */
  readonly because: string;
}

export interface Client {
  readonly runtime: Runtime;
  /** The API that the client calls. Drivers with several APIs choose by it. */
  readonly api: Api;
  /**
   * What the client needs, for npm, pip, go, Maven or cargo. The first entry is the client. Without a version it is the
   * one in this clone.
   */
  readonly packages: readonly [string, ...string[]];
  /** In `drivers/`. */
  readonly driver: string;
  /** The client only accepts models that it knows, so tiers have their names. */
  readonly knownModels?: boolean;
  /** The client returns objects of a schema instead of text. */
  readonly structuredOnly?: boolean;
  /**
   * The client only recognizes an overflow with `error_codes: vendor`, so its failures run in a project with this
   * setting.
   */
  readonly needsVendorCodes?: boolean;
  readonly exceptions?: readonly Exception[];
}

interface Row {
  readonly runtime: Runtime;
  readonly driver: string;
  readonly apis: readonly Api[];
  readonly installs: readonly Client['packages'][];
  readonly knownModels?: boolean;
  readonly structuredOnly?: boolean;
  readonly needsVendorCodes?: boolean;
  readonly exceptions?: readonly Exception[];
}

const references: Exception = {
  case: 'references',
  vendor: 'messages',
  sees: /this model's vendor does not store responses; send the item itself instead of item_reference, as SDKs do with store: false/,
  because: "the gateway doesn't store responses, so set `store: false`, as the other cases do",
};

/** By default, `code` is the gateway's, and the message is that of the first vendor, whose dialect may be another. */
const overflow = (vendor: Vendor): Exception => ({
  case: 'overflow',
  vendor,
  sees: /^not recognized: .*(?:prompt is too long|Input tokens exceed)/s,
  because: "the client only recognizes its own vendor's code or message, so set `error_codes: vendor`",
});

/** Both clients are built in one folder, because they share most of what has to be compiled. */
const rustPackages = ['tokio[macros,rt-multi-thread,time]', 'serde_json', 'futures'] as const;

const rows: readonly Row[] = [
  { runtime: 'node', driver: 'openai-chat.js', apis: ['chat'], installs: [['openai'], ['openai@6'], ['openai@5'], ['openai@4']] },
  { runtime: 'node', driver: 'openai-responses.js', apis: ['responses'], installs: [['openai'], ['openai@5']] },
  {
    ...{ runtime: 'node', driver: 'anthropic.js', apis: ['messages'] },
    installs: [['@anthropic-ai/sdk'], ['@anthropic-ai/sdk@0.60'], ['@anthropic-ai/sdk@0.30']],
  },
  {
    ...{ runtime: 'node', driver: 'ai-sdk.js', apis: ['chat'] },
    installs: [
      ['@ai-sdk/openai', 'ai'],
      ['@ai-sdk/openai@2', 'ai@5'],
    ],
  },
  {
    ...{ runtime: 'node', driver: 'ai-sdk.js', apis: ['responses'], exceptions: [references] },
    installs: [
      ['@ai-sdk/openai', 'ai'],
      ['@ai-sdk/openai@2', 'ai@5'],
    ],
  },
  {
    runtime: 'node',
    driver: 'ai-sdk.js',
    apis: ['messages'],
    installs: [
      ['@ai-sdk/anthropic', 'ai'],
      ['@ai-sdk/anthropic@2', 'ai@5'],
    ],
  },
  {
    ...{ runtime: 'node', driver: 'langchain.js', apis: ['chat', 'responses'], needsVendorCodes: true },
    exceptions: [overflow('messages')],
    installs: [['@langchain/openai@1', '@langchain/core@1']],
  },
  { runtime: 'node', driver: 'langchain.js', apis: ['messages'], installs: [['@langchain/anthropic@1', '@langchain/core@1']] },
  { runtime: 'node', driver: 'openai-agents.js', apis: ['responses', 'chat'], installs: [['@openai/agents', 'openai', 'zod']] },
  {
    ...{ runtime: 'node', driver: 'mastra.js', apis: ['chat', 'responses', 'messages'] },
    installs: [['@mastra/core', '@ai-sdk/openai', '@ai-sdk/anthropic', 'zod']],
  },
  {
    ...{ runtime: 'python', driver: 'openai_chat.py', apis: ['chat'] },
    installs: [['openai==3.*', 'anthropic==2.*'], ['openai==2.*'], ['openai==1.*']],
  },
  { runtime: 'python', driver: 'openai_responses.py', apis: ['responses'], installs: [['openai==3.*', 'anthropic==2.*'], ['openai==2.*']] },
  {
    ...{ runtime: 'python', driver: 'anthropic_messages.py', apis: ['messages'] },
    installs: [['anthropic==2.*', 'openai==3.*'], ['anthropic==1.*'], ['anthropic==0.40.*']],
  },
  {
    runtime: 'python',
    driver: 'langchain_models.py',
    apis: ['chat', 'responses'],
    installs: [['langchain-openai', 'langchain-anthropic']],
  },
  { runtime: 'python', driver: 'langchain_models.py', apis: ['messages'], installs: [['langchain-anthropic', 'langchain-openai']] },
  {
    ...{ runtime: 'python', driver: 'pydantic_agents.py', apis: ['chat', 'responses'], needsVendorCodes: true },
    exceptions: [overflow('messages')],
    installs: [['pydantic-ai-slim[openai,anthropic]']],
  },
  {
    ...{ runtime: 'python', driver: 'pydantic_agents.py', apis: ['messages'], needsVendorCodes: true },
    exceptions: [overflow('chat')],
    installs: [['pydantic-ai-slim[openai,anthropic]']],
  },
  {
    ...{ runtime: 'python', driver: 'instructor_client.py', apis: ['chat', 'messages'], structuredOnly: true },
    installs: [['instructor[anthropic]']],
  },
  {
    ...{ runtime: 'python', driver: 'dspy_models.py', apis: ['chat', 'responses'], needsVendorCodes: true },
    ...{ exceptions: vendors.map(overflow), installs: [['dspy']] },
  },
  { runtime: 'python', driver: 'dspy_models.py', apis: ['messages'], installs: [['dspy']] },
  { runtime: 'python', driver: 'llm_models.py', apis: ['chat', 'responses'], installs: [['llm']] },
  { runtime: 'python', driver: 'mem0_memory.py', apis: ['chat', 'messages'], installs: [['mem0ai', 'anthropic']] },
  { runtime: 'python', driver: 'litellm_client.py', apis: ['chat', 'messages'], installs: [['litellm', 'mcp', 'tenacity']] },
  {
    ...{ runtime: 'python', driver: 'llama_index_models.py', apis: ['chat'] },
    installs: [['llama-index-llms-openai-like']],
  },
  {
    ...{ runtime: 'python', driver: 'llama_index_models.py', apis: ['messages'], knownModels: true },
    installs: [['llama-index-llms-anthropic', 'anthropic==0.*']],
  },
  { runtime: 'python', driver: 'haystack_models.py', apis: ['chat'], installs: [['haystack-ai', 'anthropic-haystack']] },
  { runtime: 'python', driver: 'haystack_models.py', apis: ['messages'], installs: [['anthropic-haystack', 'haystack-ai']] },
  { runtime: 'python', driver: 'strands_agents.py', apis: ['chat', 'messages'], installs: [['strands-agents[openai,anthropic]']] },
  {
    ...{ runtime: 'python', driver: 'autogen_models.py', apis: ['chat'] },
    installs: [['autogen-ext[openai,anthropic]', 'autogen-agentchat']],
  },
  {
    ...{ runtime: 'python', driver: 'autogen_models.py', apis: ['messages'] },
    installs: [['autogen-ext[openai,anthropic]', 'autogen-agentchat', 'anthropic==0.*']],
  },
  {
    ...{ runtime: 'python', driver: 'agno_agents.py', apis: ['chat'], needsVendorCodes: true },
    ...{ exceptions: [overflow('chat')], installs: [['agno', 'openai', 'anthropic']] },
  },
  { runtime: 'python', driver: 'agno_agents.py', apis: ['messages'], installs: [['agno', 'openai', 'anthropic']] },
  {
    ...{ runtime: 'python', driver: 'semantic_kernel_chat.py', apis: ['chat', 'messages'] },
    installs: [['semantic-kernel[anthropic]']],
  },
  { runtime: 'python', driver: 'crewai_models.py', apis: ['chat', 'messages'], installs: [['crewai[anthropic]']] },
  { runtime: 'python', driver: 'google_adk_models.py', apis: ['chat', 'messages'], installs: [['google-adk', 'litellm']] },
  {
    ...{ runtime: 'python', driver: 'inspect_models.py', apis: ['chat'], needsVendorCodes: true },
    exceptions: vendors.map(overflow),
    installs: [['inspect-ai', 'openai', 'anthropic']],
  },
  { runtime: 'python', driver: 'inspect_models.py', apis: ['messages'], installs: [['inspect-ai', 'openai', 'anthropic']] },
  { runtime: 'go', driver: 'openai.go', apis: ['chat'], installs: [['github.com/openai/openai-go/v3']] },
  { runtime: 'go', driver: 'anthropic.go', apis: ['messages'], installs: [['github.com/anthropics/anthropic-sdk-go']] },
  { runtime: 'go', driver: 'go_openai.go', apis: ['chat'], installs: [['github.com/sashabaranov/go-openai']] },
  { runtime: 'go', driver: 'langchaingo.go', apis: ['chat', 'messages'], installs: [['github.com/tmc/langchaingo']] },
  {
    ...{ runtime: 'go', driver: 'eino.go', apis: ['chat'] },
    installs: [['github.com/cloudwego/eino-ext/components/model/openai', 'github.com/cloudwego/eino', 'github.com/bytedance/sonic']],
  },
  { runtime: 'java', driver: 'OpenaiJava.java', apis: ['chat'], installs: [['com.openai:openai-java@4.101.0']] },
  {
    ...{ runtime: 'java', driver: 'Langchain4j.java', apis: ['chat'] },
    installs: [['dev.langchain4j:langchain4j-open-ai@1.19.0', 'dev.langchain4j:langchain4j-anthropic@1.19.0']],
  },
  {
    ...{ runtime: 'java', driver: 'Langchain4j.java', apis: ['messages'] },
    installs: [['dev.langchain4j:langchain4j-anthropic@1.19.0', 'dev.langchain4j:langchain4j-open-ai@1.19.0']],
  },
  {
    ...{ runtime: 'rust', driver: 'async_openai.rs', apis: ['chat'] },
    installs: [['async-openai@0.43[chat-completion]', 'genai@0.7', ...rustPackages]],
  },
  {
    ...{ runtime: 'rust', driver: 'genai.rs', apis: ['chat', 'messages'] },
    installs: [['genai@0.7', 'async-openai@0.43[chat-completion]', ...rustPackages]],
  },
];

export const clients: readonly Client[] = rows.flatMap(({ apis, installs, ...row }) =>
  installs.flatMap((packages) => apis.map((api) => ({ ...row, api, packages }))),
);

/** Whether this clone's own dependencies include the client. */
export function isInDependencies({ runtime, packages }: Client): boolean {
  return runtime === 'node' && packages.every((name) => devDependencies.includes(name));
}

const devDependencies = ['openai', '@anthropic-ai/sdk', 'ai', '@ai-sdk/openai', '@ai-sdk/anthropic'];
