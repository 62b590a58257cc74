/**
 * Claude on Vertex AI. The path contains the model and says whether to stream, and the body contains the API version.
 * The location `global` uses the host aiplatform.googleapis.com.
 */
import { findClaude } from './claude-names.ts';
import type { VendorDescription } from './vendor-description.ts';
import { vertexGemini, vertexHosts } from './vertex-gemini.ts';

export const vertexClaude: VendorDescription = {
  ...vertexGemini,
  name: 'vertex-claude',
  title: 'Claude on Vertex AI',
  documentation: 'https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai',
  hosts: vertexHosts,
  path: /\/publishers\/anthropic\/?$/,
  baseUrl: 'https://{location}-aiplatform.googleapis.com/v1/projects/{project}/locations/{location}/publishers/anthropic',
  dialect: 'messages',
  serves: ['messages'],
  auth: { header: 'authorization', scheme: 'Bearer' },
  requests: {
    paths: { '/messages': '/models/{model}:rawPredict', '/messages/count_tokens': '/models/count-tokens:rawPredict' },
    streamPaths: { '/messages': '/models/{model}:streamRawPredict' },
    membersInPath: ['model'],
    addedMembers: { anthropic_version: 'vertex-2023-10-16' },
  },
  findModel: findClaude,
  tableNames: ['vertex_ai-anthropic_models'],
};
