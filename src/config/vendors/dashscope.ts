/** Alibaba Model Studio has too many models to list them here. `gateway catalog import` adds their prices. */
import type { VendorDescription } from './vendor-description.ts';

export const dashscope: VendorDescription = {
  name: 'dashscope',
  title: 'Alibaba Model Studio',
  documentation: 'https://www.alibabacloud.com/help/en/model-studio/compatibility-of-openai-with-dashscope',
  hosts: ['dashscope.aliyuncs.com', 'dashscope-intl.aliyuncs.com'],
  baseUrl: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
  dialect: 'chat',
  tableNames: ['dashscope'],
};
