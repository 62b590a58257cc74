/**
 * Claude on Amazon Bedrock's runtime (InvokeModel). The model and whether to stream are part of the path, and the API
 * version and the beta flags are in the body. Streams are binary (vendors/aws-event-stream.ts).
 */
import { findClaude } from './claude-names.ts';
import type { VendorDescription } from './vendor-description.ts';

/** Bedrock rejects requests with beta flags that aren't in this list. */
const bedrockFlags = [
  ...['computer-use-2024-10-22', 'computer-use-2025-01-24', 'computer-use-2025-11-24', 'token-efficient-tools-2025-02-19'],
  ...['interleaved-thinking-2025-05-14', 'output-128k-2025-02-19', 'dev-full-thinking-2025-05-14', 'context-1m-2025-08-07'],
  ...[
    'context-management-2025-06-27',
    'effort-2025-11-24',
    'tool-search-tool-2025-10-19',
    'tool-examples-2025-10-29',
    'compact-2026-01-12',
  ],
];

export const bedrockClaude: VendorDescription = {
  name: 'bedrock-claude',
  title: 'Claude on Amazon Bedrock',
  documentation: 'https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html',
  hosts: ['bedrock-runtime.*.amazonaws.com', 'bedrock-runtime-fips.*.amazonaws.com'],
  baseUrl: 'https://bedrock-runtime.{region}.amazonaws.com',
  parameters: {
    region: { question: 'AWS region', pattern: /^[a-z]{2}(?:-[a-z]+)+-\d$/, example: 'us-east-1' },
  },
  dialect: 'messages',
  auth: { header: 'authorization', scheme: 'Bearer' },
  identity: { type: 'aws', scheme: 'bearer', service: 'bedrock' },
  requests: {
    paths: { '/messages': '/model/{model}/invoke', '/messages/count_tokens': null },
    streamPaths: { '/messages': '/model/{model}/invoke-with-response-stream' },
    membersInPath: ['model', 'stream'],
    addedMembers: { anthropic_version: 'bedrock-2023-05-31' },
    betaFlags: { allowed: bedrockFlags, aliases: {}, isInBody: true },
  },
  findModel: findClaude,
  tableNames: ['bedrock', 'bedrock_converse'],
};
