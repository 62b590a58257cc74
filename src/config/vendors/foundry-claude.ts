/** Claude in Microsoft Foundry. The model in a request is the name of a deployment. */
import { findClaude } from './claude-names.ts';
import type { VendorDescription } from './vendor-description.ts';

export const foundryClaude: VendorDescription = {
  name: 'foundry-claude',
  title: 'Claude in Microsoft Foundry',
  documentation: 'https://platform.claude.com/docs/en/build-with-claude/claude-in-microsoft-foundry',
  hosts: ['*.services.ai.azure.com'],
  path: /^\/anthropic(?:\/|$)/,
  baseUrl: 'https://{resource}.services.ai.azure.com/anthropic/v1',
  parameters: {
    resource: { question: 'Name of the resource', pattern: /^[a-z0-9][a-z0-9-]{0,62}$/i, example: 'my-resource' },
  },
  listsModels: false,
  dialect: 'messages',
  identity: { type: 'azure', scope: 'https://ai.azure.com/.default' },
  findModel: findClaude,
  tableNames: ['azure_ai'],
};
