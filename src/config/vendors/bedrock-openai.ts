/** The OpenAI-compatible API of Amazon Bedrock's runtime. Only some of Bedrock's models support it. */
import type { VendorDescription } from './vendor-description.ts';

export const bedrockOpenai: VendorDescription = {
  name: 'bedrock-openai',
  title: 'Amazon Bedrock, OpenAI-compatible',
  documentation: 'https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html',
  hosts: ['bedrock-runtime.*.amazonaws.com', 'bedrock-runtime-fips.*.amazonaws.com'],
  path: /^\/(?:openai\/)?v1(?:\/|$)/,
  baseUrl: 'https://bedrock-runtime.{region}.amazonaws.com/openai/v1',
  parameters: {
    region: { question: 'AWS region', pattern: /^[a-z]{2}(?:-[a-z]+)+-\d$/, example: 'us-east-1' },
  },
  dialect: 'chat',
  serves: ['chat', 'responses'],
  responses: 'unknown',
  identity: { type: 'aws', scheme: 'bearer', service: 'bedrock' },
  tableNames: ['bedrock', 'bedrock_converse'],
};
