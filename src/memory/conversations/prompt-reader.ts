/**
 * Reads prompts that mostly repeat earlier ones: an agent sends its whole history with each call, and only the end of it is new.
 *
 * Two things are remembered, without the texts: what the beginning of a list of messages consists of, by the SHA-256 of its bytes; and the same of
 * each piece, for tools, system prompts, and histories that were changed. So what was read before is neither parsed nor masked nor hashed
 * again, unless a text turns out to be missing in the database.
 */
import { createHash, type Hash, hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { AssistantTurn, PromptRoute } from '../../core/call.ts';
import { parseJson } from '../../core/json/narrow.ts';
import { JsonSyntaxError, skipSpace } from '../../core/json/syntax.ts';
import { largeBytes } from '../../core/low-priority-thread.ts';
import { joinItems, type Step } from '../../dialects/prompt/prompt.ts';
import { maxExtras } from '../../dialects/prompt/prompt-limits.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import { type ChainPart, type ExtraPart, type HashedExtra, linkExtras, linkMessages } from './chain.ts';
import {
  forgetExtra,
  forgetMessage,
  type HashedStep,
  hashSteps,
  isHashed,
  UnusualPromptError,
  withExtra,
  withMessage,
  withoutText,
  withText,
} from './hashed-steps.ts';
import { addResponse, isContext, linkContext, type MaskedPrompt, type MaskedText, type PlacedExtra, readPrompt } from './masked-prompt.ts';
import { findPieces, once, type Piece, type PromptPieces, roleOf } from './prompt-pieces.ts';

/** Steps of all remembered pieces, about 400 bytes each. */
const maxRemembered = 30_000;
/** Messages and extras of all histories, about 500 bytes each. */
const maxLinks = 60_000;
/** A piece with more steps is not remembered. */
const maxSteps = 64;
/** A prompt with more messages is read as a whole, because not all of it is stored (`prompt-limits.ts`). */
const maxMessages = 1_500;
/**
 * Ends of the history that are remembered, one after each message. Clients change the last messages: they mark them for the vendor's cache, and edit
 * the last question.
 */
const maxEnds = 8;

/** What a list of messages consists of, from its first message that is no system message. */
interface History {
  readonly parts: readonly ChainPart[];
  readonly extras: readonly ExtraPart[];
  /** System messages before the first message. */
  readonly context: readonly PlacedExtra[];
  /** The longest is the last. */
  readonly ends: readonly End[];
}

/** The first `bytes` of the list with what they consist of. */
interface End {
  readonly bytes: number;
  readonly digest: string;
  readonly messages: number;
  readonly parts: number;
  readonly extras: number;
  readonly context: number;
}

/** What is known of a prompt that is being read. */
interface Seen {
  key: string | null;
  history: History | null;
  end: End | null;
  /** Of the bytes until `end`. */
  digest: Hash;
}

export type PromptReader = ReturnType<typeof createPromptReader>;

export function createPromptReader(masker: CredentialMasker) {
  const pieces = new LRUCache<string, readonly HashedStep[]>({ maxSize: maxRemembered, sizeCalculation: (steps) => 1 + steps.length });
  const histories = new LRUCache<string, History>({
    maxSize: maxLinks,
    sizeCalculation: ({ parts, extras }) => 1 + parts.length + extras.length,
  });

  /** Null for a part of a response, which has to be joined with the other parts. */
  const readPiece = (scope: string, route: PromptRoute, piece: Piece, budget: { steps: number }): readonly HashedStep[] | null => {
    const key = `${scope} ${piece.kind} ${piece.digest()}`;
    const known = pieces.get(key);
    // Counted before anything is hashed.
    budget.steps -= known?.length ?? piece.parse().length;
    if (budget.steps < 0) throw new UnusualPromptError();
    const read = once(() => hashSteps(piece.parse(), masker));
    if (known) return known.map((step, index) => withText(step, () => read()[index]));
    if (route === 'responses' && piece.parse().some((step) => step.kind === 'message' && step.role === 'assistant')) return null;
    if (read().length <= maxSteps) pieces.set(key, read().map(withoutText));
    return read();
  };

  /** Null if the prompt must be read as a whole. */
  const readInPieces = (projectId: string, route: PromptRoute, body: Buffer): MaskedPrompt | null => {
    if (body.length >= largeBytes) return null;
    const scope = `${projectId} ${route}`;
    const seen: Seen = { key: null, history: null, end: null, digest: createHash('sha256') };
    const found = findPieces(route, body, ({ start, anchor }) => {
      seen.key = anchor && `${scope} ${hash('sha256', body.subarray(anchor.start, anchor.end), 'base64')}`;
      seen.history = (seen.key === null ? null : histories.get(seen.key)) ?? null;
      const known = seen.history && findEnd(body, start, seen.history.ends);
      if (known) [seen.end, seen.digest] = [known.end, known.digest];
      return start + (seen.end?.bytes ?? 0);
    });
    if (found === null) return null;
    if (found.context.length + found.messages.length > maxMessages) return null;
    const budget = { steps: maxExtras };
    const last = found.messages.at(-1);
    if (route === 'messages' && last && roleOf(body, last.span) === 'assistant') return null;
    const context = found.context
      .flatMap((piece): readonly (HashedStep | Step)[] => readPiece(scope, route, piece, budget) ?? piece.parse())
      .flatMap((step) => (isHashed(step) ? [step] : hashSteps([step], masker)));
    // An item of another type may have the role of a system message.
    if (context.some((step) => step.kind === 'message')) return null;
    const systems = context.flatMap((step) => (step.kind === 'extra' ? [{ position: 0, extra: step.extra }] : []));
    // An image in a system message comes before the extras of the history.
    if (!systems.every(isContext)) return null;
    const history = readHistory(route, body, found, seen, (piece) => readPiece(scope, route, piece, budget) ?? piece.parse());
    if (history === null || systems.length + history.context.length + history.extras.length > maxExtras) return null;
    const remembered = seen.end ?? { parts: 0, extras: 0, context: 0 };
    const { parts, extras } = remembered;
    if (seen.key !== null) {
      histories.set(seen.key, {
        parts: history.parts.map((part, index) => (index < parts ? part : forgetMessage(part))),
        extras: history.extras.map((part, index) => (index < extras ? part : forgetExtra(part))),
        context: history.context.map(({ position, extra }) => ({ position, extra: { ...extra, text: '' } })),
        ends: history.ends,
      });
    }
    const whole = once(() => readPrompt(route, parseJson(body.toString('utf8')), masker));
    const sameText = ({ textHash }: HashedExtra) => whole().context.find((part) => part.textHash === textHash);
    return {
      context: linkContext([
        ...systems,
        ...history.context.map(({ position, extra }, index) => ({
          position,
          extra: index < remembered.context ? withExtra(extra, () => sameText(extra)) : extra,
        })),
      ]),
      extras: history.extras.map((part, index) => (index < extras ? withExtra(part, () => whole().extras[index]) : part)),
      parts: history.parts.map((part, index) => (index < parts ? withMessage(part, () => whole().parts[index]) : part)),
      prefill: null,
    };
  };

  /** The history whose beginning is known, with the messages that follow. Null if it has too many. */
  function readHistory(
    route: PromptRoute,
    body: Buffer,
    { start, messages }: PromptPieces,
    { history: known, end, digest }: Seen,
    read: (piece: Piece) => readonly (HashedStep | Step)[],
  ): History | null {
    const parts = known && end ? known.parts.slice(0, end.parts) : [];
    const extras = known && end ? known.extras.slice(0, end.extras) : [];
    const context = known && end ? known.context.slice(0, end.context) : [];
    const added: Omit<End, 'digest'>[] = [];
    let count = end?.messages ?? 0;
    if (count + messages.length > maxMessages) return null;
    let open: (HashedStep | Step)[] = [];
    for (const [index, piece] of messages.entries()) {
      const steps = read(piece);
      open.push(...steps);
      count += 1;
      // Items of the same response are joined.
      const isEnd = route !== 'responses' || steps.some((step) => step.kind === 'pause' || (step.kind === 'message' && 'message' in step));
      if (!isEnd && index < messages.length - 1) continue;
      for (const step of route === 'responses' ? joinItems(open) : open) {
        for (const hashed of isHashed(step) ? [step] : hashSteps([step], masker)) {
          if (hashed.kind === 'message') parts.push(...linkMessages([hashed.message], parts.at(-1)?.hash ?? null));
          else if (hashed.kind === 'extra') {
            const placed = { position: parts.length, extra: hashed.extra };
            if (isContext(placed)) context.push(placed);
            else extras.push(...linkExtras([placed], extras.at(-1)?.hash ?? null));
          }
        }
      }
      open = [];
      if (isEnd)
        added.push({
          bytes: piece.span.end - start,
          messages: count,
          parts: parts.length,
          extras: extras.length,
          context: context.length,
        });
    }
    const ends = known && end ? known.ends.filter(({ bytes }) => bytes <= end.bytes) : [];
    ends.push(...addDigests(body, start, digest, end?.bytes ?? 0, added.slice(-maxEnds)));
    return { parts, extras, context, ends: ends.slice(-maxEnds) };
  }

  return {
    /** Pieces are remembered for their project only. A body that is no JSON object has an empty prompt. */
    readPrompt(projectId: string, route: PromptRoute, body: Buffer): MaskedPrompt {
      try {
        return readInPieces(projectId, route, body) ?? readPrompt(route, parseJson(body.toString('utf8')), masker);
      } catch (error) {
        if (error instanceof JsonSyntaxError) return readPrompt(route, undefined, masker);
        if (error instanceof UnusualPromptError) return readPrompt(route, parseJson(body.toString('utf8')), masker);
        throw error;
      }
    },
    addResponse: (prompt: MaskedPrompt, turn: AssistantTurn | null): MaskedText => addResponse(prompt, turn, masker),
  };
}

/** The longest known beginning of the list at `start` that more messages follow. */
function findEnd(body: Buffer, start: number, ends: readonly End[]): { readonly end: End; readonly digest: Hash } | null {
  const digest = createHash('sha256');
  let found: { readonly end: End; readonly digest: Hash } | null = null;
  let hashed = start;
  for (const end of ends) {
    const at = start + end.bytes;
    if (at >= body.length) break;
    digest.update(body.subarray(hashed, at));
    hashed = at;
    const until = digest.copy();
    if (digest.copy().digest('base64') !== end.digest) break;
    if (body[skipSpace(body, at)] === comma) found = { end, digest: until };
  }
  return found;
}

const comma = 0x2c;

/** `digest` is that of the first `from` bytes of the list at `start`. */
function addDigests(body: Buffer, start: number, digest: Hash, from: number, ends: readonly Omit<End, 'digest'>[]): End[] {
  let hashed = start + from;
  return ends.map((end) => {
    digest.update(body.subarray(hashed, start + end.bytes));
    hashed = start + end.bytes;
    return { ...end, digest: digest.copy().digest('base64') };
  });
}
