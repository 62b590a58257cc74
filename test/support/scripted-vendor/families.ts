/** Vendor families that the demo vendor doesn't support. */
import { byClass, type Family, openai } from '../../../src/demo-vendor/errors.ts';

export const anthropic: Family = {
  keyHeaders: ['x-api-key', 'authorization'],
  requestIdHeader: 'request-id',
  missingModel: 'model: Field required',
  errorBody: ({ status, message, details }) => ({
    type: 'error',
    error: { type: anthropicTypes[status] ?? byClass(status, 'invalid_request_error', 'api_error'), message, details },
    request_id: 'req_demo',
  }),
};

/** The image format of NVIDIA and Stability. */
export const artifacts: Family = {
  ...openai,
  keyHeaders: ['authorization'],
  errorBody: ({ status, message }) => ({ type: 'about:blank', title: `HTTP ${status}`, status, detail: message }),
};

/** The speech format of ElevenLabs and Deepgram. */
export const voice: Family = {
  ...openai,
  keyHeaders: ['xi-api-key', 'authorization'],
  errorBody: ({ status, message, code }) => ({ detail: { status: code ?? `http_${status}`, message } }),
};

const anthropicTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};
