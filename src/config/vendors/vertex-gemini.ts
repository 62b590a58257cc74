/**
 * Gemini on Vertex AI, through its OpenAI-compatible API. Its models have names like `google/gemini-2.5-flash`. The
 * location `global` uses the host aiplatform.googleapis.com.
 */
import type { VendorDescription } from './vendor-description.ts';

export const vertexHosts = ['*-aiplatform.googleapis.com', 'aiplatform.googleapis.com', 'aiplatform.*.rep.googleapis.com'];

export const vertexGemini: VendorDescription = {
  name: 'vertex-gemini',
  title: 'Gemini on Vertex AI',
  documentation: 'https://cloud.google.com/vertex-ai/generative-ai/docs/migrate/openai/overview',
  hosts: vertexHosts,
  path: /\/endpoints\/openapi\/?$/,
  baseUrl: 'https://{location}-aiplatform.googleapis.com/v1/projects/{project}/locations/{location}/endpoints/openapi',
  parameters: {
    project: { question: 'Google Cloud project', pattern: /^[a-z][a-z0-9-]{4,62}$/, example: 'my-project' },
    location: { question: 'Location', pattern: /^[a-z][a-z0-9-]{1,40}$/, example: 'europe-west1' },
  },
  correctBaseUrl: correctHost,
  dialect: 'chat',
  serves: ['chat', 'embeddings', 'responses'],
  responses: 'translated',
  needsKey: false,
  identity: { type: 'google' },
  tableNames: ['vertex_ai-language-models', 'vertex_ai-embedding-models'],
};

/** The location is usually part of the host name. The global location and the two multi-regions are exceptions. */
function correctHost(url: string): string {
  return url
    .replace('https://global-aiplatform.', 'https://aiplatform.')
    .replace(/^https:\/\/(us|eu)-aiplatform\.googleapis\.com/, 'https://aiplatform.$1.rep.googleapis.com');
}
