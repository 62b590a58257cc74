/** Finds the pieces of a prompt (its tools, system prompt and messages) in the bytes of a request. */
import type { PromptRoute } from '../../core/call.ts';
import { characters } from '../../core/json/characters.ts';
import { parseJson } from '../../core/json/parse.ts';
import { decodeString, type Span, scanElements, scanMembers } from '../../core/json/spans.ts';
import { kindAt, skipSpace, skipString, skipValue } from '../../core/json/syntax.ts';
import { knownRegionsOf } from '../../dialects/json/known-regions.ts';
import { type PieceKind, parsePiece, promptMembers, type Step } from '../../dialects/prompt/prompt.ts';
import { fingerprintOf } from './fingerprint.ts';

export interface Piece {
  readonly kind: PieceKind;
  readonly span: Span;
  readonly fingerprint: () => string;
  readonly parse: () => readonly Step[];
}

export interface PromptPieces {
  /** Returns the tools, the system prompt, and the system messages at the beginning of the list. */
  readonly context: () => readonly Piece[];
  readonly contextFingerprints: () => readonly string[];
  /** The offset of the first message that isn't a system message. */
  readonly start: number;
  /** The messages after the offset that `skip` returned (see `findPieces`). */
  readonly messages: readonly Piece[];
}

/**
 * The offsets at which messages in a request body end. `ends` starts with the first message after the offset `from`.
 */
export interface ScannedMessages {
  readonly from: number;
  readonly ends: readonly number[];
}

/** Where to start reading a list of messages, together with the message boundaries that an earlier scan found. */
interface ListPosition {
  /** The offset at which to start, i.e. the end of the last known message or the start of the first message. */
  readonly at: number;
  readonly scanned: ScannedMessages;
}

/**
 * Splits the prompt of a request into its tools, system prompt and messages. `skip` decides at which message to start.
 * Returns null if the prompt has to be read as a whole.
 *
 * The body should be valid JSON, but callers have to expect a JsonSyntaxError anyway.
 */
export function findPieces(route: PromptRoute, body: Buffer, skip: (list: ListBeginning) => ListPosition): PromptPieces | null {
  const { system, list } = promptMembers[route];
  let tools: Span | null = null;
  let prompt: Span | null = null;
  let found: MessagePieces | null = null;
  const regions = knownRegionsOf(body);
  const endOf: EndOfValue = (start) => regions.find((region) => region.isValue && region.start === start)?.end ?? skipValue(body, start);
  let at = skipSpace(body, skipSpace(body, 0) + 1);
  while (body[at] === quote) {
    const keyEnd = skipString(body, at);
    const key = decodeString(body, { start: at, end: keyEnd });
    const start = skipSpace(body, skipSpace(body, keyEnd) + 1);
    const kind = kindAt(body, start);
    let end: number;
    if (key === list) {
      // We can't split the prompt if the list of messages isn't an array or occurs twice.
      if (found !== null || kind !== 'array') return null;
      const read = readList(body, start, { skip, endOf, toPiece: (span) => createPiece(body, span, route, 'message') });
      found = read.pieces;
      end = read.end;
    } else {
      end = endOf(start);
      if (key === 'tools') tools = kind === 'array' ? { start, end } : null;
      else if (key === system) prompt = { start, end };
    }
    at = skipSpace(body, end);
    if (body[at] !== comma) break;
    at = skipSpace(body, at + 1);
  }
  if (found === null) return null;
  const { start, messages, systems } = found;
  const context = (): readonly Piece[] => [
    ...(tools ? elementsOf(body, tools.start).map((span) => createPiece(body, span, route, 'tool')) : []),
    ...(prompt ? blocksOf(body, prompt).map(({ span, isBlock }) => createPiece(body, span, route, 'system', isBlock)) : []),
    ...systems.map((span) => createPiece(body, span, route, 'message')),
  ];
  const fingerprint = ({ start: from, end }: Span): string =>
    regions.find((region) => region.isValue && region.start === from)?.fingerprint ?? fingerprintOf(body, from, end);
  const contextFingerprints = (): readonly string[] => [
    ...(tools ? [`tools ${fingerprint(tools)}`] : []),
    ...(prompt ? [`system ${fingerprint(prompt)}`] : []),
    ...systems.map(fingerprint),
  ];
  return { start, messages, context, contextFingerprints };
}

type EndOfValue = (start: number) => number;

interface MessagePieces extends Pick<PromptPieces, 'start' | 'messages'> {
  readonly systems: readonly Span[];
}

function blocksOf(body: Buffer, prompt: Span): readonly { readonly span: Span; readonly isBlock: boolean }[] {
  const isBlock = kindAt(body, prompt.start) === 'array';
  return (isBlock ? elementsOf(body, prompt.start) : [prompt]).map((span) => ({ span, isBlock }));
}

const { closeBracket, comma, openBracket, quote } = characters;
const roleKey: ReadonlySet<string> = new Set(['role']);

/** The beginning of a list of messages, i.e. the leading system messages and the first two messages after them. */
export interface ListBeginning {
  readonly systems: readonly Span[];
  readonly first: readonly Span[];
  readonly start: number;
  /**
   * The bytes of the first two messages after the system messages. Clients usually send different ones in each session,
   * so we use them to tell sessions apart. Null if there are fewer than two.
   */
  readonly anchor: Span | null;
  readonly end: number;
}

/** Reads the beginning of the list at `at`. Returns null if the value isn't a list, is empty, or isn't valid JSON. */
export function findBeginning(body: Buffer, at: number, endOf: EndOfValue): ListBeginning | null {
  if (body[at] !== openBracket) return null;
  const systems: Span[] = [];
  const first: Span[] = [];
  let end = at;
  for (let next = skipSpace(body, at + 1); body[next] !== closeBracket; next = skipSpace(body, next + 1)) {
    end = endOf(next);
    const span = { start: next, end };
    if (first.length === 0 && isSystem(roleOf(body, span))) systems.push(span);
    else first.push(span);
    next = skipSpace(body, end);
    if (first.length === 2 || body[next] === closeBracket) break;
    if (body[next] !== comma) return null;
  }
  const [one, two] = first;
  if (systems.length + first.length === 0) return null;
  return { systems, first, start: one?.start ?? skipSpace(body, end), anchor: one && two ? { start: one.start, end: two.end } : null, end };
}

interface ListReader {
  readonly skip: (list: ListBeginning) => ListPosition;
  readonly endOf: EndOfValue;
  readonly toPiece: (span: Span) => Piece;
}

function readList(
  body: Buffer,
  at: number,
  { skip, endOf, toPiece }: ListReader,
): { readonly pieces: MessagePieces; readonly end: number } {
  const beginning = findBeginning(body, at, endOf);
  if (beginning === null) {
    const start = skipSpace(body, at + 1);
    return { pieces: { systems: [], start, messages: [] }, end: start + 1 };
  }
  const { start, systems } = beginning;
  const { at: skipped, scanned } = skip(beginning);
  const endOfMessage = createEndOfMessage(body, scanned);
  const messages = skipped > start ? [] : beginning.first.map(toPiece);
  let end = skipped > start ? skipped : beginning.end;
  for (;;) {
    const next = skipSpace(body, end);
    if (body[next] !== comma) return { pieces: { systems, start, messages }, end: next + 1 };
    const from = skipSpace(body, next + 1);
    end = endOfMessage(from);
    messages.push(toPiece({ start: from, end }));
  }
}

/**
 * Returns a function that finds the end of the message at an offset. It has to be called with ascending offsets. It
 * only scans messages whose end isn't known yet.
 */
function createEndOfMessage(body: Buffer, { from, ends }: ScannedMessages): EndOfValue {
  let index = 0;
  return (start) => {
    while (index < ends.length && (ends[index] ?? 0) <= start) index += 1;
    return (start < from ? undefined : ends[index]) ?? skipValue(body, start);
  };
}

function isSystem(role: string | null): boolean {
  return role === 'system' || role === 'developer';
}

export function roleOf(body: Buffer, { start }: Span): string | null {
  if (kindAt(body, start) !== 'object') return null;
  const role = scanMembers(body, start, roleKey).members.get('role');
  return role?.kind === 'string' ? decodeString(body, role.value) : null;
}

function elementsOf(body: Buffer, start: number): readonly Span[] {
  return [...scanElements(body, start)].map(({ value }) => value);
}

/**
 * Creates a piece that isn't parsed until somebody needs it. If `isBlock` is set, the piece is one block of a system
 * prompt, and is parsed like a system prompt that only consists of this block.
 */
function createPiece(body: Buffer, span: Span, route: PromptRoute, kind: PieceKind, isBlock = false): Piece {
  const parse = once(() => {
    const value = parseJson(body.toString('utf8', span.start, span.end));
    return parsePiece(route, kind, isBlock ? [value] : value);
  });
  return { kind, span, fingerprint: () => fingerprintOf(body, span.start, span.end), parse };
}

export function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
