/**
 * vLLM runs models on your own machines. The address doesn't reveal that it's vLLM, so providers have to set `vendor`.
 */
import type { VendorDescription } from './vendor-description.ts';

export const vllm: VendorDescription = {
  name: 'vllm',
  title: 'vLLM',
  documentation: 'https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html',
  hosts: [],
  baseUrl: 'http://127.0.0.1:8000/v1',
  dialect: 'chat',
  needsKey: false,
};
