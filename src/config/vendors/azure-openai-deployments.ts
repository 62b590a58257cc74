/**
 * Azure OpenAI with its dated API versions. The name of the deployment is part of the path, except on the responses
 * route, where it's in the body.
 */
import { azureOpenai } from './azure-openai.ts';
import type { VendorDescription } from './vendor-description.ts';

const deploymentPaths = [
  ...['/chat/completions', '/embeddings', '/images/generations', '/images/edits'],
  ...['/audio/speech', '/audio/transcriptions', '/audio/translations'],
];

export const azureOpenaiDeployments: VendorDescription = {
  ...azureOpenai,
  name: 'azure-openai-deployments',
  title: 'Azure OpenAI with dated API versions',
  documentation: 'https://learn.microsoft.com/azure/ai-foundry/openai/reference',
  path: /^\/openai(?!\/v1)(?:\/|$)/,
  baseUrl: 'https://{resource}.openai.azure.com/openai',
  requests: {
    ...azureOpenai.requests,
    query: { 'api-version': '2024-10-21' },
    paths: Object.fromEntries(deploymentPaths.map((path) => [path, `/deployments/{model}${path}`])),
  },
};
