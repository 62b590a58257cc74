/** The OpenAI-compatible API of Amazon Bedrock Mantle. Its models have names like `openai.gpt-oss-120b`. */
import type { VendorDescription } from './vendor-description.ts';

export const bedrockMantle: VendorDescription = {
  name: 'bedrock-mantle',
  title: 'Amazon Bedrock Mantle',
  documentation: 'https://docs.aws.amazon.com/bedrock/latest/userguide/bedrock-mantle.html',
  hosts: ['bedrock-mantle.*.api.aws'],
  baseUrl: 'https://bedrock-mantle.{region}.api.aws/v1',
  parameters: {
    region: { question: 'AWS region', pattern: /^[a-z]{2}(?:-[a-z]+)+-\d$/, example: 'us-east-1' },
  },
  dialect: 'chat',
  serves: ['chat', 'responses'],
  identity: { type: 'aws', scheme: 'bearer', service: 'bedrock-mantle' },
  tableNames: ['bedrock_mantle'],
};
