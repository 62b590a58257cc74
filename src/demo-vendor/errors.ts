/** Error responses in the format of each vendor family, and the header in which each family expects the API key. */
import type { IncomingHttpHeaders } from 'node:http';
import { jsonHeaders, type OutgoingResponse } from './response.ts';

/** Vendor families by error format: OpenAI, Anthropic, Google, NVIDIA and Stability images, ElevenLabs voices. */
export type Family = 'openai' | 'anthropic' | 'gemini' | 'artifacts' | 'voice';

export interface ErrorDetails {
  readonly status: number;
  readonly message: string;
  /** OpenAI's error code; the other families derive theirs from the status. */
  readonly code?: string;
  /** The request member that OpenAI objects to. */
  readonly param?: string;
  /** Anthropic's and Google's `details`. */
  readonly details?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Returns an error response in the format of the family. */
export function errorResponse(family: Family, details: ErrorDetails): OutgoingResponse {
  const body = JSON.stringify(errorBody(family, details));
  return { kind: 'body', status: details.status, headers: { ...jsonHeaders, ...details.headers }, body };
}

/** Returns OpenAI's response to an invalid request. */
export function badRequest(message: string): OutgoingResponse {
  return errorResponse('openai', { status: 400, message });
}

/** Returns the body of an error response, or of an error event in a stream. */
export function errorBody(family: Family, { status, message, code, param, details }: ErrorDetails): object {
  switch (family) {
    case 'openai':
      return { error: { message, type: openaiType(status, code), param: param ?? null, code: code ?? openaiCodes[status] ?? null } };
    case 'anthropic':
      return {
        type: 'error',
        error: { type: anthropicTypes[status] ?? byClass(status, 'invalid_request_error', 'api_error'), message, details },
        request_id: 'req_demo',
      };
    case 'gemini':
      return {
        error: { code: status, message, status: geminiStatuses[status] ?? byClass(status, 'INVALID_ARGUMENT', 'INTERNAL'), details },
      };
    case 'artifacts':
      return { type: 'about:blank', title: `HTTP ${status}`, status, detail: message };
    case 'voice':
      return { detail: { status: code ?? `http_${status}`, message } };
    default:
      return family satisfies never;
  }
}

/** Reports whether the request has a key in a header that the real vendor reads; any value is accepted. */
export function hasKey(family: Family, headers: IncomingHttpHeaders): boolean {
  return keyHeaders[family].some((name) => headers[name] !== undefined && headers[name] !== '');
}

/** Returns the 401 for a request without a key. */
export function missingKeyResponse(family: Family): OutgoingResponse {
  const message = `You did not provide an API key. The demo vendor takes any key, in the header ${keyHeaders[family][0]}.`;
  return errorResponse(family, { status: 401, message });
}

const keyHeaders: Readonly<Record<Family, readonly string[]>> = {
  openai: ['authorization', 'api-key'],
  anthropic: ['x-api-key', 'authorization'],
  gemini: ['x-goog-api-key'],
  artifacts: ['authorization'],
  voice: ['xi-api-key', 'authorization'],
};

function openaiType(status: number, code: string | undefined): string {
  if (status === 429) return code === 'insufficient_quota' ? 'insufficient_quota' : 'requests';
  return byClass(status, 'invalid_request_error', 'server_error');
}

function byClass(status: number, caller: string, server: string): string {
  return status < 500 ? caller : server;
}

const openaiCodes: Readonly<Record<number, string>> = {
  401: 'invalid_api_key',
  403: 'unsupported_country_region_territory',
  404: 'model_not_found',
  429: 'rate_limit_exceeded',
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

const geminiStatuses: Readonly<Record<number, string>> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};
