/**
 * Reads prompts that mostly repeat earlier ones: an agent sends its whole history with each call, and only the last pieces of it are new.
 *
 * The hashes of a piece are remembered by the SHA-256 of its bytes. So a piece that was read before is neither parsed nor masked again, unless its
 * text turns out to be missing in the database.
 */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { AssistantTurn, PromptRoute } from '../../core/call.ts';
import { parseJson } from '../../core/json/narrow.ts';
import { decodeString, type Member, type Span, scanElements, scanMembers } from '../../core/json/spans.ts';
import { JsonSyntaxError, skipSpace } from '../../core/json/syntax.ts';
import { largeBytes } from '../../core/low-priority-thread.ts';
import { joinItems, normalizeMessage, type PieceKind, parsePiece, promptMembers, type Step } from '../../dialects/prompt/prompt.ts';
import { maxExtras } from '../../dialects/prompt/prompt-limits.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import { type HashedExtra, type HashedMessage, linkMessages, toHashedExtra, toHashedMessage } from './chain.ts';
import { addResponse, linkContext, type MaskedPrompt, type MaskedText, readPrompt } from './masked-prompt.ts';

/** About 400 bytes each. */
const maxRemembered = 50_000;
/** A piece with more steps is not remembered. */
const maxSteps = 64;
/** A prompt with more pieces is read as a whole, because not all of it is stored (`prompt-limits.ts`). */
const maxPieces = 1_500;

/** A step whose text is read when it is needed. */
type HashedStep =
  | { readonly kind: 'message'; readonly message: HashedMessage }
  | { readonly kind: 'extra'; readonly extra: HashedExtra }
  | { readonly kind: 'pause' };

export type PromptReader = ReturnType<typeof createPromptReader>;

export function createPromptReader(masker: CredentialMasker) {
  const remembered = new LRUCache<string, readonly HashedStep[]>({ max: maxRemembered });

  /** Null for a part of a response, which has to be joined with the other parts. */
  const readPiece = (scope: string, route: PromptRoute, piece: Piece): readonly HashedStep[] | null => {
    const key = `${scope} ${piece.kind} ${piece.digest()}`;
    const known = remembered.get(key);
    const read = once(() => hashSteps(piece.parse(), masker));
    if (known) return known.map((step, index) => withText(step, () => read()[index]));
    if (route === 'responses' && piece.parse().some((step) => step.kind === 'message' && step.role === 'assistant')) return null;
    if (read().length <= maxSteps) remembered.set(key, read().map(withoutText));
    return read();
  };

  return {
    /** Pieces are remembered for their project only. A body that is no JSON object has an empty prompt. */
    readPrompt(projectId: string, route: PromptRoute, body: Buffer): MaskedPrompt {
      const pieces = findPieces(route, body);
      const steps = pieces?.flatMap(
        (piece): readonly (HashedStep | Step)[] => readPiece(`${projectId} ${route}`, route, piece) ?? piece.parse(),
      );
      const prompt = steps && link(route === 'responses' ? joinItems(steps) : steps, masker);
      return prompt ?? readPrompt(route, parseJson(body.toString('utf8')), masker);
    },
    addResponse: (prompt: MaskedPrompt, turn: AssistantTurn | null): MaskedText => addResponse(prompt, turn, masker),
  };
}

/** Null if not everything would be stored. */
function link(steps: readonly (HashedStep | Step)[], masker: CredentialMasker): MaskedPrompt | null {
  const messages: HashedMessage[] = [];
  const extras: { readonly position: number; readonly extra: HashedExtra }[] = [];
  for (const step of steps) {
    for (const hashed of 'message' in step || 'extra' in step ? [step] : hashSteps(step.kind === 'pause' ? [] : [step as Step], masker)) {
      if (hashed.kind === 'message') messages.push(hashed.message);
      else if (hashed.kind === 'extra') extras.push({ position: messages.length, extra: hashed.extra });
    }
  }
  return extras.length > maxExtras ? null : { ...linkContext(extras), parts: linkMessages(messages), prefill: null };
}

function hashSteps(steps: readonly Step[], masker: CredentialMasker): readonly HashedStep[] {
  return steps.flatMap((step): readonly HashedStep[] => {
    if (step.kind === 'pause') return [step];
    if (step.kind === 'extra') return step.read().map((extra) => ({ kind: 'extra', extra: toHashedExtra(masker.maskExtra(extra)) }));
    const message = normalizeMessage(step.role, step);
    return message ? [{ kind: 'message', message: toHashedMessage(masker.maskMessage(message)) }] : [];
  });
}

const emptyMessage = { role: 'user', text: '', toolCalls: [] } as const;

function withoutText(step: HashedStep): HashedStep {
  if (step.kind === 'message') return { kind: 'message', message: { ...step.message, message: emptyMessage } };
  return step.kind === 'extra' ? { kind: 'extra', extra: { ...step.extra, text: '' } } : step;
}

function withText(step: HashedStep, read: () => HashedStep | undefined): HashedStep {
  if (step.kind === 'message') {
    const { role, messageHash } = step.message;
    return {
      kind: 'message',
      message: {
        role,
        messageHash,
        get message() {
          const same = read();
          return same?.kind === 'message' ? same.message.message : emptyMessage;
        },
      },
    };
  }
  if (step.kind === 'pause') return step;
  const { role, details, textHash } = step.extra;
  return {
    kind: 'extra',
    extra: {
      role,
      details,
      textHash,
      get text() {
        const same = read();
        return same?.kind === 'extra' ? same.extra.text : '';
      },
    },
  };
}

interface Piece {
  readonly kind: PieceKind;
  readonly digest: () => string;
  readonly parse: () => readonly Step[];
}

const wanted: ReadonlySet<string> = new Set([
  'tools',
  ...Object.values(promptMembers).flatMap(({ system, list }) => [system ?? list, list]),
]);
const roleKey: ReadonlySet<string> = new Set(['role']);

/** Null if the body must be read as a whole. */
function findPieces(route: PromptRoute, body: Buffer): readonly Piece[] | null {
  if (body.length >= largeBytes) return null;
  try {
    const { members } = scanMembers(body, skipSpace(body, 0), wanted);
    const { system, list } = promptMembers[route];
    const messages = members.get(list);
    if (messages?.kind !== 'array') return null;
    const elements = [...scanElements(body, messages.value.start)];
    const last = elements.at(-1);
    if (route === 'messages' && last?.kind === 'object' && isAssistant(body, last.value)) return null;
    const spans: [PieceKind, readonly Span[], (value: unknown) => unknown][] = [
      ['tool', elementsOf(body, members.get('tools')), (tool) => tool],
      ['system', elementsOf(body, system === null ? undefined : members.get(system)), (block) => [block]],
      ['message', elements.map(({ value }) => value), (message) => message],
    ];
    const prompt = system === null ? undefined : members.get(system);
    if (prompt !== undefined && prompt.kind !== 'array') spans[1] = ['system', [prompt.value], (text) => text];
    const pieces = spans.flatMap(([kind, list, toValue]) => list.map((span) => createPiece(body, span, route, kind, toValue)));
    return pieces.length > maxPieces ? null : pieces;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}

function elementsOf(body: Buffer, member: Member | undefined): readonly Span[] {
  return member?.kind === 'array' ? [...scanElements(body, member.value.start)].map(({ value }) => value) : [];
}

/** Whether the response continues this message. */
function isAssistant(body: Buffer, { start }: Span): boolean {
  const role = scanMembers(body, start, roleKey).members.get('role');
  return role?.kind === 'string' && decodeString(body, role.value) === 'assistant';
}

function createPiece(body: Buffer, { start, end }: Span, route: PromptRoute, kind: PieceKind, toValue: (value: unknown) => unknown): Piece {
  return {
    kind,
    digest: () => hash('sha256', body.subarray(start, end), 'base64'),
    parse: once(() => parsePiece(route, kind, toValue(parseJson(body.toString('utf8', start, end))))),
  };
}

function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
