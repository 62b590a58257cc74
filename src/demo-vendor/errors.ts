/** Describes how a vendor reports errors, and in which header it expects the API key. */
import { type DemoRequest, type DemoResponse, jsonHeaders } from './response.ts';

export interface Family {
  /** The real vendors accept an API key in any of these headers. */
  readonly keyHeaders: readonly string[];
  readonly requestIdHeader: string;
  readonly missingModel: string;
  /** Returns the body of an error response. */
  errorBody(details: ErrorDetails): object;
}

export interface ErrorDetails {
  readonly status: number;
  readonly message: string;
  /** OpenAI's code for the error. Google's is derived from the status. */
  readonly code?: string;
  /** Only OpenAI names the parameter that's invalid. */
  readonly param?: string;
  /** Only Google's errors have `details`. */
  readonly details?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export const openai: Family = {
  keyHeaders: ['authorization', 'api-key'],
  requestIdHeader: 'x-request-id',
  missingModel: 'you must provide a model parameter',
  errorBody: ({ status, message, code, param }) => ({
    error: { message, type: openaiType(status, code), param: param ?? null, code: code ?? openaiCodes[status] ?? null },
  }),
};

export const gemini: Family = {
  keyHeaders: ['x-goog-api-key'],
  requestIdHeader: 'x-request-id',
  missingModel: openai.missingModel,
  errorBody: ({ status, message, details }) => ({
    error: { code: status, message, status: geminiStatuses[status] ?? byClass(status, 'INVALID_ARGUMENT', 'INTERNAL'), details },
  }),
};

export function errorResponse(family: Family, details: ErrorDetails): DemoResponse {
  const body = JSON.stringify(family.errorBody(details));
  return { kind: 'body', status: details.status, headers: { ...jsonHeaders, ...details.headers }, body };
}

/** Returns what OpenAI says about an invalid request. */
export function badRequest(message: string): DemoResponse {
  return errorResponse(openai, { status: 400, message });
}

export function rateLimitResponse(family: Family, model: string, hint: Pick<ErrorDetails, 'headers' | 'details'>): DemoResponse {
  return errorResponse(family, { status: 429, message: `Rate limit reached for '${model}'.`, ...hint });
}

export function unknownPathResponse(family: Family, { method, path }: DemoRequest): DemoResponse {
  return errorResponse(family, { status: 404, message: `Invalid URL (${method} ${path})`, code: 'unknown_url' });
}

function openaiType(status: number, code: string | undefined): string {
  if (status === 429) return code === 'insufficient_quota' ? 'insufficient_quota' : 'requests';
  return byClass(status, 'invalid_request_error', 'server_error');
}

export function byClass(status: number, caller: string, server: string): string {
  return status < 500 ? caller : server;
}

const openaiCodes: Readonly<Record<number, string>> = {
  401: 'invalid_api_key',
  403: 'unsupported_country_region_territory',
  404: 'model_not_found',
  429: 'rate_limit_exceeded',
};

const geminiStatuses: Readonly<Record<number, string>> = {
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};
