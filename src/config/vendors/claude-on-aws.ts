/** Anthropic's own API, billed to an AWS account (Claude Platform on AWS). */
import { findClaude } from './claude-names.ts';
import type { VendorDescription } from './vendor-description.ts';

export const claudeOnAws: VendorDescription = {
  name: 'claude-on-aws',
  title: 'Claude Platform on AWS',
  documentation: 'https://docs.aws.amazon.com/claude-platform/latest/userguide/making-requests.html',
  hosts: ['aws-external-anthropic.*.api.aws'],
  baseUrl: 'https://aws-external-anthropic.{region}.api.aws/v1',
  parameters: {
    region: { question: 'AWS region', pattern: /^[a-z]{2}(?:-[a-z]+)+-\d$/, example: 'us-east-1' },
    workspace: { question: 'Workspace of the Claude Platform', pattern: /^[A-Za-z0-9_-]{1,128}$/, example: 'wrkspc_01AbCdEf' },
  },
  dialect: 'messages',
  auth: { header: 'authorization', scheme: 'Bearer' },
  headers: { 'anthropic-workspace-id': '{workspace}' },
  identity: { type: 'aws', scheme: 'sigv4', service: 'aws-external-anthropic' },
  findModel: findClaude,
};
