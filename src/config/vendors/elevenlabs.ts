import type { Models, VendorDescription } from './vendor-description.ts';

const models: Models = {
  eleven_v3: { per_million_characters: '80' },
  eleven_multilingual_v2: { per_million_characters: '80' },
};

export const elevenlabs: VendorDescription = {
  name: 'elevenlabs',
  title: 'ElevenLabs',
  documentation: 'https://elevenlabs.io/docs/api-reference/text-to-speech/convert',
  baseUrl: 'https://api.elevenlabs.io/v1',
  dialect: 'chat',
  serves: ['speech'],
  auth: { header: 'xi-api-key', scheme: null },
  media: { speechShape: 'voice' },
  models,
  tableNames: ['elevenlabs'],
};
