/**
 * Reads and parses forms, i.e. bodies of the type `application/x-www-form-urlencoded`.
 *
 * `new URLSearchParams(text)` blocks the event loop for seconds if a form of 1 MiB has a lot of fields, and for half a
 * second if it has a lot of spaces. So we refuse forms with too many fields before we parse them, and decode large
 * values in pieces.
 */
import type { IncomingMessage } from 'node:http';
import { gatewayError } from '../core/errors.ts';
import { takeTurn } from '../core/turns.ts';
import { type AuthorizeAgain, type KeyBodies, readBody } from './body.ts';

export interface FormLimits {
  readonly maxBytes: number;
  /** Defaults to 2,000. The largest form is a playground conversation of 200 turns, which has about 1,000 fields. */
  readonly maxFields?: number;
}

const defaultMaxFields = 2_000;
/** Decoding this many bytes takes about a millisecond. */
const pieceBytes = 64 * 1_024;
const [percent, plus, space, ampersand, equals] = [...'%+ &='].map((character) => character.charCodeAt(0)) as [
  number,
  number,
  number,
  number,
  number,
];

/**
 * Throws `unsupported_media_type` if the body isn't a form, `bad_request` if it has too many fields, and the errors of
 * `readBody`. Release the bytes from `memory` when you no longer need them.
 */
export async function readForm(
  request: IncomingMessage,
  limits: FormLimits,
  memory: KeyBodies,
  authorizeAgain: AuthorizeAgain | null,
): Promise<URLSearchParams> {
  const type = request.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== undefined && type !== 'application/x-www-form-urlencoded')
    throw gatewayError('unsupported_media_type', { message: 'content type must be application/x-www-form-urlencoded' });
  return parseForm(await readBody(request, limits.maxBytes, memory, authorizeAgain), limits.maxFields);
}

/**
 * Returns the same fields as `new URLSearchParams(body.toString())`, except that a leading `?` is part of the first
 * name. Throws `bad_request` if there are too many fields.
 */
export async function parseForm(body: Uint8Array, maxFields: number = defaultMaxFields): Promise<URLSearchParams> {
  const ends = fieldEnds(body, maxFields);
  const form = new URLSearchParams();
  const decoded = Buffer.allocUnsafeSlow(body.length);
  let turnEndsAt = pieceBytes;
  let start = 0;
  /** Decodes the bytes from `start` up to `end`, and takes turns if there are a lot of them. */
  const decode = async (end: number): Promise<string> => {
    let length = 0;
    while (start < end) {
      if (start >= turnEndsAt) {
        await takeTurn();
        turnEndsAt = start + pieceBytes;
      }
      const pieceEnd = Math.min(end, turnEndsAt);
      while (start < pieceEnd) {
        const byte = body[start] as number;
        const escaped = byte === percent && start + 2 < end ? hexByte(body[start + 1] as number, body[start + 2] as number) : -1;
        decoded[length] = escaped >= 0 ? escaped : byte === plus ? space : byte;
        length += 1;
        start += escaped >= 0 ? 3 : 1;
      }
    }
    return decoded.toString('utf8', 0, length);
  };
  for (const end of ends) {
    if (start < end) {
      const equalsAt = body.subarray(start, end).indexOf(equals);
      const name = await decode(equalsAt < 0 ? end : start + equalsAt);
      if (equalsAt >= 0) start += 1;
      form.append(name, await decode(end));
    }
    start = end + 1;
  }
  return form;
}

/** Returns where each field ends. Stops at the first field that is one too many. */
function fieldEnds(body: Uint8Array, maxFields: number): number[] {
  const ends: number[] = [];
  for (let start = 0; start <= body.length; ) {
    if (ends.length === maxFields)
      throw gatewayError('bad_request', {
        message: `the form has more than ${maxFields} fields; go back, remove some of them and submit it again`,
      });
    const next = body.indexOf(ampersand, start);
    const end = next < 0 ? body.length : next;
    ends.push(end);
    start = end + 1;
  }
  return ends;
}

/** Returns -1 unless both characters are hexadecimal digits. */
function hexByte(high: number, low: number): number {
  const [left, right] = [hexDigit(high), hexDigit(low)];
  return left < 0 || right < 0 ? -1 : left * 16 + right;
}

function hexDigit(character: number): number {
  if (character >= 0x30 && character <= 0x39) return character - 0x30;
  const lower = character | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
