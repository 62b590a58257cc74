/** The clients of the matrix, as data. A client is one package at one version with one API, driven by a program in its own language. */

export type Runtime = 'node' | 'python' | 'go';
export type Api = 'chat' | 'messages' | 'responses';

export interface Client {
  readonly runtime: Runtime;
  /** The API that the client calls. Drivers of several APIs choose by it. */
  readonly api: Api;
  /** What the client needs, for npm, pip or go. The first is the client; without a version it is the one that the clone has. */
  readonly packages: readonly [string, ...string[]];
  /** In `drivers/`. */
  readonly driver: string;
  /** The client accepts only models that it knows: tiers have their names. */
  readonly knownModels?: boolean;
}

interface Row {
  readonly runtime: Runtime;
  readonly driver: string;
  readonly apis: readonly Api[];
  readonly installs: readonly Client['packages'][];
  readonly knownModels?: boolean;
}

const rows: readonly Row[] = [
  { runtime: 'node', driver: 'openai-chat.js', apis: ['chat'], installs: [['openai'], ['openai@6'], ['openai@5'], ['openai@4']] },
  { runtime: 'node', driver: 'openai-responses.js', apis: ['responses'], installs: [['openai'], ['openai@5']] },
  {
    ...{ runtime: 'node', driver: 'anthropic.js', apis: ['messages'] },
    installs: [['@anthropic-ai/sdk'], ['@anthropic-ai/sdk@0.60'], ['@anthropic-ai/sdk@0.30']],
  },
  {
    runtime: 'node',
    driver: 'ai-sdk.js',
    apis: ['chat', 'responses'],
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
  { runtime: 'node', driver: 'langchain.js', apis: ['chat', 'responses'], installs: [['@langchain/openai@1', '@langchain/core@1']] },
  { runtime: 'node', driver: 'langchain.js', apis: ['messages'], installs: [['@langchain/anthropic@1', '@langchain/core@1']] },
  { runtime: 'node', driver: 'openai-agents.js', apis: ['responses', 'chat'], installs: [['@openai/agents', 'openai', 'zod']] },
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
    ...{ runtime: 'python', driver: 'pydantic_agents.py', apis: ['chat', 'responses', 'messages'] },
    installs: [['pydantic-ai-slim[openai,anthropic]']],
  },
  { runtime: 'python', driver: 'instructor_client.py', apis: ['chat', 'messages'], installs: [['instructor[anthropic]']] },
  { runtime: 'python', driver: 'litellm_client.py', apis: ['chat', 'messages'], installs: [['litellm', 'mcp', 'tenacity']] },
  {
    ...{ runtime: 'python', driver: 'llama_index_models.py', apis: ['chat'] },
    installs: [['llama-index-llms-openai-like']],
  },
  {
    ...{ runtime: 'python', driver: 'llama_index_models.py', apis: ['messages'], knownModels: true },
    installs: [['llama-index-llms-anthropic', 'anthropic==0.*']],
  },
  { runtime: 'go', driver: 'openai.go', apis: ['chat'], installs: [['github.com/openai/openai-go/v3']] },
  { runtime: 'go', driver: 'anthropic.go', apis: ['messages'], installs: [['github.com/anthropics/anthropic-sdk-go']] },
];

export const clients: readonly Client[] = rows.flatMap(({ apis, installs, ...row }) =>
  installs.flatMap((packages) => apis.map((api) => ({ ...row, api, packages }))),
);

/** Whether the clone's own dependencies hold the client. */
export function isInDependencies({ runtime, packages }: Client): boolean {
  return runtime === 'node' && packages.every((name) => devDependencies.includes(name));
}

const devDependencies = ['openai', '@anthropic-ai/sdk', 'ai', '@ai-sdk/openai', '@ai-sdk/anthropic'];
