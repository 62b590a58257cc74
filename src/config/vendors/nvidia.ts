/**
 * NVIDIA's API catalog. Its visual models need a separate provider, with the base URL
 * https://ai.api.nvidia.com/v1/genai and `serves: [images]`.
 */
import type { VendorDescription } from './vendor-description.ts';

export const nvidia: VendorDescription = {
  name: 'nvidia',
  title: 'NVIDIA',
  documentation: 'https://docs.nvidia.com/nim/visual-genai/latest/',
  hosts: ['integrate.api.nvidia.com', 'ai.api.nvidia.com'],
  baseUrl: 'https://integrate.api.nvidia.com/v1',
  dialect: 'chat',
  media: { imageShape: 'artifacts', imageJobsOrigin: 'https://api.nvcf.nvidia.com' },
  tableNames: ['nvidia_nim'],
};
