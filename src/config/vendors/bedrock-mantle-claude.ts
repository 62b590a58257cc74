/**
 * Claude on Amazon Bedrock Mantle, which has Anthropic's paths. Its models have names like `anthropic.claude-sonnet-5`.
 */
import { bedrockMantle } from './bedrock-mantle.ts';
import { findClaude } from './claude-names.ts';
import type { VendorDescription } from './vendor-description.ts';

export const bedrockMantleClaude: VendorDescription = {
  ...bedrockMantle,
  name: 'bedrock-mantle-claude',
  title: 'Claude on Amazon Bedrock Mantle',
  path: /^\/anthropic(?:\/|$)/,
  baseUrl: 'https://bedrock-mantle.{region}.api.aws/anthropic/v1',
  dialect: 'messages',
  serves: ['messages'],
  auth: { header: 'authorization', scheme: 'Bearer' },
  findModel: findClaude,
  tableNames: ['bedrock_mantle'],
};
