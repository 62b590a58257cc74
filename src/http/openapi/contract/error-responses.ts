import { z } from 'zod';
import { type ErrorCode, errorSpecs } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json/narrow.ts';
import { type ErrorStyle, messagesErrorType } from '../../error-handler.ts';
import type { PlainTextStatus } from '../../plain-text-error.ts';
import { type ResponseHeader, responseHeaderRefs } from './parameters.ts';

export interface ErrorResponsesSpec {
  readonly style: ErrorStyle | 'either';
  readonly codes: readonly ErrorCode[];
  readonly plain: readonly PlainTextStatus[];
  readonly headers: readonly ResponseHeader[];
}

const plainReasons: Readonly<Record<PlainTextStatus, string>> = {
  400: 'plain text: the body is not valid JSON, or the URL is invalid',
  413: 'plain text: the body is too large',
  415: 'plain text: the content type is not JSON',
  422: 'plain text: the body does not match the schema',
};

const furtherMembers = {
  param: z.string().optional().describe('The name of the request field that the vendor rejected.'),
  upstream_code: z
    .string()
    .optional()
    .describe("The vendor's code. If a prompt is too long, this is always `context_length_exceeded`, whatever the vendor calls it."),
  upstream_type: z.string().optional().describe("The vendor's type."),
  hint: z.string().optional().describe('What the caller requested, and what would work instead.'),
  details: z
    .looseObject({ error_code: z.string(), unsupported: z.array(z.string()).optional() })
    .optional()
    .describe(
      "The vendor's details in the format of Anthropic's API. Its SDKs use them to decide whether to send a whole conversation again.",
    ),
};

export const errorSchemas = {
  ChatError: z
    .looseObject({ error: z.looseObject({ message: z.string(), type: z.string(), code: z.string(), ...furtherMembers }) })
    .describe("`type` and `code` have the same value, unless the caller or the project has asked for the vendor's codes."),
  MessagesError: z.looseObject({
    type: z.literal('error'),
    error: z.looseObject({ type: z.string(), message: z.string(), ...furtherMembers }),
  }),
};

export function describeErrors({ style, codes, plain, headers }: ErrorResponsesSpec): JsonObject {
  const byStatus = new Map<string, ErrorCode[]>(plain.map((status) => [String(status), []]));
  for (const code of codes) {
    for (const status of getStatuses(code)) byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const plainTexts = new Map(plain.map((status) => [String(status), plainReasons[status]]));
  const described = [...byStatus].sort().map(([status, codesOfStatus]) => {
    const plainText = plainTexts.get(status);
    const names = codesOfStatus.map((code) => {
      const delay = getRetryDelay(code, status);
      return delay === null ? code : `${code} (${delay} s)`;
    });
    const mayHaveDelay = codesOfStatus.some((code) => getRetryDelay(code, status) !== null);
    return [
      status,
      {
        description: [...(codesOfStatus.length === 0 ? [] : [names.join(', ')]), ...(plainText === undefined ? [] : [plainText])].join(
          '; ',
        ),
        headers: responseHeaderRefs([
          ...headers,
          ...(mayHaveDelay ? ['retry-after' as const] : []),
          ...(codesOfStatus.some((code) => isCeiling(code) || (code === 'upstream_failed' && status === '502'))
            ? ['x-should-retry' as const]
            : []),
        ]),
        content: {
          ...(codesOfStatus.length > 0 && {
            'application/json': { schema: bodySchema(style, status, codesOfStatus) },
          }),
          ...(plainText !== undefined && { 'text/plain': { schema: { type: 'string' } } }),
        },
      },
    ];
  });
  return { ...Object.fromEntries(described), '431': { description: 'The header block is too large. The response has no body.' } };
}

/**
 * Describes the number of seconds in `retry-after`, or returns null if we don't send this header. For a 503 caused by
 * rate limits, we pass on the time that the vendors asked for.
 */
function getRetryDelay(code: ErrorCode, status: string): string | null {
  if (code === 'upstream_failed' && status === '503') return '1 to 60';
  const { retryAfterSeconds } = errorSpecs[code];
  return retryAfterSeconds === undefined ? null : String(retryAfterSeconds);
}

function isCeiling(code: ErrorCode): boolean {
  return code === 'tenant_capped' || code === 'source_capped' || code === 'credits_exhausted';
}

/**
 * Returns all statuses of an error code. If vendors refuse a call, we respond with the status of the first vendor's
 * response, so any 4XX is possible. We list 400, 413 and 415 separately, because our own errors use these as well.
 */
function getStatuses(code: ErrorCode): string[] {
  switch (code) {
    case 'upstream_refused':
      return ['400', '413', '415', '4XX'];
    case 'upstream_failed':
      return ['502', '503'];
    default:
      return [String(errorSpecs[code].status)];
  }
}

function bodySchema(style: ErrorResponsesSpec['style'], status: string, codes: readonly ErrorCode[]): JsonObject {
  if (style === 'either') return { anyOf: [chatSchema(codes), messagesSchema(status, codes)] };
  return style === 'messages' ? messagesSchema(status, codes) : chatSchema(codes);
}

function chatSchema(codes: readonly ErrorCode[]): JsonObject {
  // If vendors can refuse the call, allow any string, because the caller may get the vendor's own error code.
  const code = codes.includes('upstream_refused') ? { type: 'string' } : { type: 'string', enum: codes };
  return { allOf: [{ $ref: '#/components/schemas/ChatError' }, { properties: { error: { properties: { code } } } }] };
}

/** In the messages dialect, errors have no code, and their type follows from the status. */
function messagesSchema(status: string, codes: readonly ErrorCode[]): JsonObject {
  const types = status === '4XX' ? ['invalid_request_error', 'api_error'] : [messagesErrorType(Number(status))];
  return {
    allOf: [
      { $ref: '#/components/schemas/MessagesError' },
      { properties: { error: { properties: { type: { type: 'string', enum: types } } } } },
    ],
    description: codes.join(', '),
  };
}
