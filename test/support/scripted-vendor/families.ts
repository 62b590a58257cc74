/** Families of vendors that the demo vendor does not have. */
import type { Family } from '../../../src/demo-vendor/errors.ts';
import { openai } from '../../../src/demo-vendor/errors.ts';

/** NVIDIA's and Stability's images. */
export const artifacts: Family = {
  ...openai,
  keyHeaders: ['authorization'],
  errorBody: ({ status, message }) => ({ type: 'about:blank', title: `HTTP ${status}`, status, detail: message }),
};

/** ElevenLabs' and Deepgram's voices. */
export const voice: Family = {
  ...openai,
  keyHeaders: ['xi-api-key', 'authorization'],
  errorBody: ({ status, message, code }) => ({ detail: { status: code ?? `http_${status}`, message } }),
};
