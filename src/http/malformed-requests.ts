/**
 * Answers requests that Node's HTTP parser rejects. Express never sees them, and Node's own answer has no body, so
 * callers wouldn't learn what was wrong.
 */
import { type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { gatewayError } from '../core/errors.ts';
import { type ErrorReports, errorBody, errorStyleOf } from './error-handler.ts';
import { subjectHeader } from './headers.ts';

/** An error of the parser. `rawPacket` is what it was reading, and `bytesParsed` is where it stopped. */
interface ParseError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer;
  readonly bytesParsed?: number;
}

interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

export function answerMalformedRequests(server: Server, countError: ErrorReports['countError']): void {
  server.on('clientError', (error: ParseError, socket: Socket) => {
    // This is how Node itself finds out whether it would write into a response that has already started.
    const { _httpMessage: response } = socket as Socket & { readonly _httpMessage?: ServerResponse | null };
    if (socket.writable && !response?.headersSent) {
      const badSubject = parseBadSubject(error);
      // Browsers and load balancers open connections that they never use.
      if (error.code !== 'ERR_HTTP_REQUEST_TIMEOUT') countError(badSubject === null ? 'bad_request' : 'invalid_memory_subject');
      socket.write(formatAnswer(badSubject ?? describeError(error)));
    }
    socket.destroy(error);
  });
}

function formatAnswer({ status, contentType, body }: Answer): string {
  const length = Buffer.byteLength(body);
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, `content-type: ${contentType}`, `content-length: ${length}`];
  return [...head, 'cache-control: no-store', 'connection: close', '', body].join('\r\n');
}

/**
 * The specification has an error code for control characters in the subject, but the parser already rejects most of
 * them.
 */
function parseBadSubject({ code, rawPacket, bytesParsed = 0 }: ParseError): Answer | null {
  if (code !== 'HPE_INVALID_HEADER_TOKEN' || rawPacket === undefined) return null;
  const lines = rawPacket.toString('latin1', 0, bytesParsed + 1).split('\r\n');
  const isSubject = lines.at(-1)?.toLowerCase().startsWith(`${subjectHeader}:`);
  const target = lines.findLast((line) => / HTTP\/1\.[01]$/.test(line))?.split(' ')[1];
  if (!isSubject || target === undefined) return null;
  const error = gatewayError('invalid_memory_subject');
  return { status: error.status, contentType: 'application/json', body: JSON.stringify(errorBody(error, errorStyleOf(target))) };
}

/** The same statuses as in Node's own answers. */
function describeError({ code }: ParseError): Answer {
  const answer = (status: number, body: string): Answer => ({ status, contentType: 'text/plain; charset=utf-8', body: `${body}\n` });
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return answer(431, 'the URL and the headers are too long');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return answer(413, 'the chunk extensions are too long');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return answer(408, 'the request did not arrive in time');
    case 'HPE_INVALID_HEADER_TOKEN':
      return answer(400, 'a header has a character that HTTP does not allow, such as a control character');
    default:
      return answer(400, 'the request is not valid HTTP');
  }
}
