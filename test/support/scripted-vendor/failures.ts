/** The responses that a scripted fault returns in place of a normal one. */

import { errorResponse, type Family, gemini, rateLimitResponse, unknownPathResponse } from '../../../src/demo-vendor/errors.ts';
import type { DemoRequest, DemoResponse } from '../../../src/demo-vendor/response.ts';
import { countTokens } from '../../../src/demo-vendor/tokens.ts';
import { anthropic } from './families.ts';
import { redirectResponse, type ScriptedResponse } from './response.ts';
import type { Fault, RetryHint } from './scripts.ts';

/**
 * Returns the response for a scripted fault. Null if the fault doesn't apply to this request. `nowMs` is used for retry
 * hints that are dates.
 */
export function failureResponse(fault: Fault, family: Family, request: DemoRequest, nowMs: number): ScriptedResponse | null {
  const { model } = request;
  switch (fault.kind) {
    case 'status':
      return errorResponse(family, { status: fault.status, message: statusMessage(fault.status, model) });
    case 'refuse':
      return errorResponse(family, {
        status: fault.status,
        message: `The request is not one that '${model}' can answer.`,
        code: 'unsupported_parameter',
      });
    case 'rate-limited':
      return limitedResponse(fault.hint, family, model, nowMs);
    case 'window':
      return overflowResponse(fault.tokens, family, countTokens(request.body.length));
    case 'quota':
      return errorResponse(family, {
        status: 429,
        message: 'You exceeded your current quota, please check your plan and billing details.',
        code: 'insufficient_quota',
        // OpenAI reports this in the code, and Anthropic in the details.
        ...(family === anthropic && { details: { error_code: 'enforced_spend_limit_reached' } }),
      });
    case 'spend-limit':
      return errorResponse(family, {
        status: 429,
        message: 'The spend limit set by the owner of this account is reached.',
        code: 'insufficient_quota',
        details: { error_code: 'enforced_spend_limit_reached' },
      });
    case 'not-found':
      return unknownPathResponse(family, request);
    case 'hang':
      return { kind: 'silence' };
    case 'redirect':
      return redirectResponse(`http://elsewhere.invalid${request.path}`);
    case 'garbage':
      return plainResponse('application/json', '{"id":"chatcmpl-demo","choices":[{"index":0,"mess');
    case 'empty':
      return plainResponse('application/json', '');
    case 'wrong-type':
      return plainResponse('text/html; charset=utf-8', '<!doctype html><title>Welcome</title><p>This is not the API.</p>\n');
    default:
      return fault satisfies never;
  }
}

function statusMessage(status: number, model: string): string {
  if (status === 404) return `The model '${model}' does not exist or you do not have access to it.`;
  if (status === 529) return 'Overloaded';
  return `The demo vendor was asked to fail with ${status} by the model name '${model}'.`;
}

function overflowResponse(window: number, family: Family, tokens: number): DemoResponse | null {
  if (tokens <= window) return null;
  if (family === anthropic)
    return errorResponse(family, { status: 400, message: `prompt is too long: ${tokens} tokens > ${window} maximum` });
  const message = `Input tokens exceed the configured limit of ${window} tokens. Your messages resulted in ${tokens} tokens. Please reduce the length of the messages.`;
  return errorResponse(family, { status: 400, message, code: 'context_length_exceeded', param: 'messages' });
}

function limitedResponse(hint: RetryHint, family: Family, model: string, nowMs: number): DemoResponse {
  const limited = (headers: Record<string, string>): DemoResponse => rateLimitResponse(family, model, { headers });
  switch (hint.form) {
    case 'none':
      return limited({});
    case 'seconds':
      return limited({ 'retry-after': String(hint.amount) });
    case 'milliseconds':
      return limited({ 'retry-after-ms': String(hint.amount) });
    case 'date':
      return limited({ 'retry-after': new Date(nowMs + hint.amount * 1_000).toUTCString() });
    case 'reset':
      return limited(resetHeaders(family, hint.amount, nowMs));
    case 'body':
      return rateLimitResponse(gemini, model, {
        details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${hint.amount}s` }],
      });
    default:
      return hint satisfies never;
  }
}

function resetHeaders(family: Family, seconds: number, nowMs: number): Record<string, string> {
  if (family === anthropic) {
    return {
      'anthropic-ratelimit-requests-remaining': '0',
      'anthropic-ratelimit-requests-reset': new Date(nowMs + seconds * 1_000).toISOString(),
    };
  }
  return { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': `${Math.floor(seconds / 60)}m${seconds % 60}s` };
}

function plainResponse(mediaType: string, body: string): DemoResponse {
  return { kind: 'body', status: 200, headers: { 'content-type': mediaType }, body };
}
