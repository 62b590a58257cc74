/** Finds the pieces of a prompt in the bytes of a request: the tools, the system prompt, and the elements of the list of messages. */
import { hash } from 'node:crypto';
import type { PromptRoute } from '../../core/call.ts';
import { parseJson } from '../../core/json/narrow.ts';
import { decodeString, type Span, scanElements, scanMembers } from '../../core/json/spans.ts';
import { kindAt, skipSpace, skipString, skipValue } from '../../core/json/syntax.ts';
import { type PieceKind, parsePiece, promptMembers, type Step } from '../../dialects/prompt/prompt.ts';

export interface Piece {
  readonly kind: PieceKind;
  readonly span: Span;
  /** The SHA-256 of its bytes. */
  readonly digest: () => string;
  readonly parse: () => readonly Step[];
}

export interface PromptPieces {
  /** Tools, the system prompt, and the system messages that begin the list. */
  readonly context: readonly Piece[];
  /** Offset of the first message that is no system message. */
  readonly start: number;
  /** The bytes of the first two of them, by which the sessions of a client differ. Null if there are fewer. */
  readonly anchor: Span | null;
  /** The rest of the list, after what `skip` knows. */
  readonly messages: readonly Piece[];
}

/**
 * `skip` is given `start` and `anchor`, and returns an offset in the list at which a message ends; what precedes it is not scanned.
 * Null if the body must be read as a whole. Throws JsonSyntaxError. The syntax of the body has been checked before.
 */
export function findPieces(
  route: PromptRoute,
  body: Buffer,
  skip: (list: Pick<PromptPieces, 'start' | 'anchor'>) => number,
): PromptPieces | null {
  const { system, list } = promptMembers[route];
  let tools: readonly Piece[] = [];
  let prompt: readonly Piece[] = [];
  let found: PromptPieces | null = null;
  let at = skipSpace(body, skipSpace(body, 0) + 1);
  while (body[at] === quote) {
    const keyEnd = skipString(body, at);
    const key = decodeString(body, { start: at, end: keyEnd });
    const start = skipSpace(body, skipSpace(body, keyEnd) + 1);
    const kind = kindAt(body, start);
    let end: number;
    if (key === list) {
      // A repeated key, or a text in place of the list.
      if (found !== null || kind !== 'array') return null;
      const read = readList(route, body, start, skip);
      found = read.pieces;
      end = read.end;
    } else {
      end = skipValue(body, start);
      if (key === 'tools') tools = kind === 'array' ? elementsOf(body, start).map((span) => createPiece(body, span, route, 'tool')) : [];
      else if (key === system) {
        prompt = (kind === 'array' ? elementsOf(body, start) : [{ start, end }]).map((span) =>
          createPiece(body, span, route, 'system', kind === 'array'),
        );
      }
    }
    at = skipSpace(body, end);
    if (body[at] !== comma) break;
    at = skipSpace(body, at + 1);
  }
  return found && { ...found, context: [...tools, ...prompt, ...found.context] };
}

const [quote, comma, closeBracket] = [0x22, 0x2c, 0x5d];
const roleKey: ReadonlySet<string> = new Set(['role']);

function readList(
  route: PromptRoute,
  body: Buffer,
  start: number,
  skip: (list: Pick<PromptPieces, 'start' | 'anchor'>) => number,
): { readonly pieces: PromptPieces; readonly end: number } {
  const context: Piece[] = [];
  let at = skipSpace(body, start + 1);
  const readPiece = (): Piece | null => {
    if (body[at] === closeBracket) return null;
    const end = skipValue(body, at);
    const piece = createPiece(body, { start: at, end }, route, 'message');
    at = skipSpace(body, end);
    if (body[at] === comma) at = skipSpace(body, at + 1);
    return piece;
  };
  const first: Piece[] = [];
  let from = at;
  while (first.length < 2) {
    const begin = at;
    const piece = readPiece();
    if (piece === null) break;
    if (first.length === 0 && isSystem(roleOf(body, piece.span))) context.push(piece);
    else {
      if (first.length === 0) from = begin;
      first.push(piece);
    }
  }
  const [one, two] = first;
  const anchor = one && two ? { start: one.span.start, end: two.span.end } : null;
  const skipped = skip({ start: from, anchor });
  const messages: Piece[] = [];
  if (skipped > from) {
    at = skipSpace(body, skipped);
    if (body[at] === comma) at = skipSpace(body, at + 1);
  } else messages.push(...first);
  for (let piece = readPiece(); piece !== null; piece = readPiece()) messages.push(piece);
  return { pieces: { context, start: from, anchor, messages }, end: at + 1 };
}

function isSystem(role: string | null): boolean {
  return role === 'system' || role === 'developer';
}

/** The role of a message; null if it has none. */
export function roleOf(body: Buffer, { start }: Span): string | null {
  if (kindAt(body, start) !== 'object') return null;
  const role = scanMembers(body, start, roleKey).members.get('role');
  return role?.kind === 'string' ? decodeString(body, role.value) : null;
}

function elementsOf(body: Buffer, start: number): readonly Span[] {
  return [...scanElements(body, start)].map(({ value }) => value);
}

/** A block of the system prompt is parsed as the only one of a list. */
function createPiece(body: Buffer, span: Span, route: PromptRoute, kind: PieceKind, isBlock = false): Piece {
  const parse = once(() => {
    const value = parseJson(body.toString('utf8', span.start, span.end));
    return parsePiece(route, kind, isBlock ? [value] : value);
  });
  return { kind, span, digest: () => hash('sha256', body.subarray(span.start, span.end), 'base64'), parse };
}

export function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
