/**
 * Reads prompts that mostly repeat earlier ones. Agents send their whole history with each call, and only the end of it
 * is new.
 *
 * We cache two things, neither of which contains any text. `known-prompts.ts` caches what the beginning of a list of
 * messages consists of. This file also caches each piece by a fingerprint of its bytes, which helps with tools, system
 * prompts and histories that were changed. We don't parse, mask or hash anything that's cached, unless its text turns
 * out to be missing in the database.
 */
import { LRUCache } from 'lru-cache';
import type { AssistantTurn, PromptRoute } from '../../core/call.ts';
import { parseJson } from '../../core/json/parse.ts';
import { JsonSyntaxError } from '../../core/json/syntax.ts';
import { largeBytes } from '../../core/low-priority-thread.ts';
import { joinItems, type Step } from '../../dialects/prompt/prompt.ts';
import { maxExtras } from '../../dialects/prompt/prompt-limits.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import { type ExtraPart, type HashedExtra, LinkedExtra, LinkedMessage, linkExtras, linkMessages } from './chain.ts';
import {
  forgetExtra,
  forgetMessage,
  type HashedStep,
  hashSteps,
  isHashed,
  UnusualPromptError,
  withExtra,
  withoutText,
  withText,
} from './hashed-steps.ts';
import { createKnownPrompts, type History, type HistoryEnd, nothingKnown, type Recognized } from './known-prompts.ts';
import { addResponse, isContext, linkContext, type MaskedPrompt, type MaskedText, type PlacedExtra, readPrompt } from './masked-prompt.ts';
import { findPieces, once, type Piece, type PromptPieces, roleOf } from './prompt-pieces.ts';

/**
 * Limits the total size of the cached pieces. It's counted in steps (see `HashedStep`), which take about 400 bytes
 * each.
 */
const maxRemembered = 30_000;
/**
 * Limits the total size of the cached contexts, i.e. of tools and system prompts. It's counted in parts, which take
 * about 500 bytes each.
 */
const maxContextParts = 20_000;
/** We don't cache pieces that are parsed into more steps than this. */
const maxSteps = 64;
/**
 * A prompt with more messages than this is read as a whole, because not all of its messages are stored (see
 * `prompt-limits.ts`).
 */
const maxMessages = 1_500;
/** Below this size, parsing the whole prompt is faster than looking up its pieces. */
const minBytes = 8_192;

export type PromptReader = ReturnType<typeof createPromptReader>;

export function createPromptReader(masker: CredentialMasker, knownPrompts = createKnownPrompts(), minBytesInPieces = minBytes) {
  const pieces = new LRUCache<string, readonly HashedStep[]>({ maxSize: maxRemembered, sizeCalculation: (steps) => 1 + steps.length });
  const contexts = new LRUCache<string, { readonly pieces: number; readonly parts: readonly ExtraPart[] }>({
    maxSize: maxContextParts,
    sizeCalculation: ({ parts }) => 1 + parts.length,
  });

  /**
   * Hashes a piece of the prompt, or takes its hashes from the cache. Returns null for an assistant's message in the
   * Responses API, because a response can consist of several items there, and we have to join them before we hash them.
   */
  const readPiece = (scope: string, route: PromptRoute, piece: Piece, budget: { steps: number }): readonly HashedStep[] | null => {
    const key = `${scope} ${piece.kind} ${piece.fingerprint()}`;
    const known = pieces.get(key);
    // Count the steps before hashing anything, so that we can stop early if they exceed the budget.
    budget.steps -= known?.length ?? piece.parse().length;
    if (budget.steps < 0) throw new UnusualPromptError();
    const read = once(() => hashSteps(piece.parse(), masker));
    if (known) return known.map((step, index) => withText(step, () => read()[index]));
    if (route === 'responses' && piece.parse().some((step) => step.kind === 'message' && step.role === 'assistant')) return null;
    if (read().length <= maxSteps) pieces.set(key, read().map(withoutText));
    return read();
  };

  const readContext = (
    scope: string,
    route: PromptRoute,
    found: PromptPieces,
    budget: { steps: number },
  ): readonly PlacedExtra[] | null => {
    const context = found
      .context()
      .flatMap((piece): readonly (HashedStep | Step)[] => readPiece(scope, route, piece, budget) ?? piece.parse())
      .flatMap((step) => (isHashed(step) ? [step] : hashSteps([step], masker)));
    // We've selected system messages by their role, but items of other types can have the role `system` as well. If one
    // of them was parsed as an ordinary message, read the prompt as a whole.
    if (context.some((step) => step.kind === 'message')) return null;
    const systems = context.flatMap((step) => (step.kind === 'extra' ? [{ position: 0, extra: step.extra }] : []));
    // A system message may contain an image. The image isn't part of the context, but it has to come before the extras
    // of the history, so read such a prompt as a whole.
    return systems.every(isContext) ? systems : null;
  };

  /**
   * Reads a prompt piece by piece so that we can use the cache. Returns null if that's not possible and the prompt has
   * to be read as a whole.
   */
  const readInPieces = (projectId: string, route: PromptRoute, body: Buffer): MaskedPrompt | null => {
    if (body.length < minBytesInPieces || body.length >= largeBytes) return null;
    const scope = `${projectId} ${route}`;
    let beginning = nothingKnown;
    const found = findPieces(route, body, (list) => {
      beginning = knownPrompts.recognize(scope, body, list);
      return { at: list.start + (beginning.known?.end.bytes ?? 0), scanned: beginning.scanned };
    });
    if (found === null) return null;
    const contextKey = [scope, ...found.contextFingerprints()].join(' ');
    const known = contexts.get(contextKey);
    if ((known?.pieces ?? found.context().length) + found.messages.length > maxMessages) return null;
    const last = found.messages.at(-1);
    if (route === 'messages' && last && roleOf(body, last.span) === 'assistant') return null;
    const budget = { steps: maxExtras - (known?.parts.length ?? 0) };
    const whole = once(() => readPrompt(route, parseJson(body.toString('utf8')), masker));
    const sameText = ({ textHash }: HashedExtra) => whole().context.find((part) => part.textHash === textHash);
    const readKnown = (index: number) => known?.parts[index] && sameText(known.parts[index]);
    const knownContext = known?.parts.map((part, index) => new LinkedExtra(part, part, readKnown, index));
    const systems = knownContext?.map((extra) => ({ position: 0, extra })) ?? readContext(scope, route, found, budget);
    if (systems === null) return null;
    const history = readHistory(route, found, beginning, (piece) => readPiece(scope, route, piece, budget) ?? piece.parse());
    if (history === null || systems.length + history.context.length + history.extras.length > maxExtras) return null;
    const remembered = beginning.known?.end ?? { parts: 0, extras: 0, context: 0 };
    const { parts, extras } = remembered;
    if (beginning.key !== null) {
      knownPrompts.addHistory(beginning.key, {
        parts: history.parts.map((part, index) => (index < parts ? part : forgetMessage(part))),
        extras: history.extras.map((part, index) => (index < extras ? part : forgetExtra(part))),
        context: history.context.map(({ position, extra }) => ({ position, extra: { ...extra, text: '' } })),
        ends: history.ends,
      });
    }
    // If the messages don't add anything to the context, reuse the cached links.
    const isSame = knownContext !== undefined && history.context.length === 0;
    const linked = isSame
      ? knownContext
      : linkContext([
          ...systems,
          ...history.context.map(({ position, extra }, index) => ({
            position,
            extra: index < remembered.context ? withExtra(extra, () => sameText(extra)) : extra,
          })),
        ]);
    if (known === undefined && history.context.length === 0)
      contexts.set(contextKey, { pieces: found.context().length, parts: linked.map(forgetExtra) });
    const readExtra = (index: number) => whole().extras[index];
    const readPart = (index: number) => whole().parts[index];
    return {
      context: linked,
      extras: history.extras.map((part, index) => (index < extras ? new LinkedExtra(part, part, readExtra, index) : part)),
      parts: history.parts.map((part, index) => (index < parts ? new LinkedMessage(part, part, readPart, index) : part)),
      prefill: null,
    };
  };

  /**
   * Returns the known history with the new messages of the request appended to it, or null if there are too many
   * messages.
   */
  function readHistory(
    route: PromptRoute,
    { start, messages }: PromptPieces,
    beginning: Recognized,
    read: (piece: Piece) => readonly (HashedStep | Step)[],
  ): History | null {
    const { history, end } = beginning.known ?? { history: null, end: null };
    const parts = history?.parts.slice(0, end.parts) ?? [];
    const extras = history?.extras.slice(0, end.extras) ?? [];
    const context = history?.context.slice(0, end.context) ?? [];
    const added: Omit<HistoryEnd, 'fingerprint'>[] = [];
    let count = end?.messages ?? 0;
    if (count + messages.length > maxMessages) return null;
    let open: (HashedStep | Step)[] = [];
    for (const [index, piece] of messages.entries()) {
      const steps = read(piece);
      open.push(...steps);
      count += 1;
      // In the Responses API, a response can consist of several items that we join into one message. The cached history
      // can't end between two of them.
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
    const known = history?.ends.filter(({ bytes }) => bytes <= end.bytes) ?? [];
    const ends = [...known, ...added].flatMap((each) =>
      beginning.ends.filter(({ bytes }) => bytes === each.bytes).map(({ fingerprint }) => ({ ...each, fingerprint })),
    );
    return { parts, extras, context, ends };
  }

  return {
    /**
     * Reads the prompt of a request, without ever using cached pieces of another project. If the body isn't a JSON
     * object, the prompt is empty.
     */
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
