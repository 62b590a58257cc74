/**
 * Azure OpenAI with its current API, which has the same paths as OpenAI. The model in a request is the name of a
 * deployment. Providers need `model_names` if their deployments have different names than the models.
 */
import type { VendorDescription } from './vendor-description.ts';

export const azureOpenai: VendorDescription = {
  name: 'azure-openai',
  title: 'Azure OpenAI',
  documentation: 'https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle',
  hosts: ['*.openai.azure.com', '*.cognitiveservices.azure.com'],
  baseUrl: 'https://{resource}.openai.azure.com/openai/v1',
  parameters: {
    resource: { question: 'Name of the resource', pattern: /^[a-z0-9][a-z0-9-]{0,62}$/i, example: 'my-resource' },
  },
  listsModels: false,
  dialect: 'chat',
  responses: 'native',
  auth: { header: 'api-key', scheme: null },
  identity: { type: 'azure', scope: 'https://cognitiveservices.azure.com/.default' },
  requests: { maxTokensField: 'max_completion_tokens' },
  tableNames: ['azure'],
};
