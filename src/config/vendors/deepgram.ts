import type { VendorDescription } from './vendor-description.ts';

export const deepgram: VendorDescription = {
  name: 'deepgram',
  title: 'Deepgram',
  documentation: 'https://developers.deepgram.com/docs/text-to-speech',
  baseUrl: 'https://api.deepgram.com/v1',
  dialect: 'chat',
  serves: ['speech'],
  auth: { header: 'authorization', scheme: 'Token' },
  media: { speechShape: 'voice', speech: { voiceIn: 'query', path: '/speak', textField: 'text', body: {} } },
  tableNames: ['deepgram'],
};
