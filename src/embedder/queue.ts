/**
 * Decides in which order texts are embedded. We embed one text at a time, so that a request with many texts doesn't
 * delay a short one by more than one text.
 *
 * Short requests, such as the query of a search or the message of a recall, go first. After every few of them, a text
 * of a long request gets its turn, so that passages are still embedded in the background under load. The queue is
 * limited by requests and by characters.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Embed, Embedding } from './model.ts';

export interface EmbeddingQueue {
  /**
   * Returns the vectors in the order of `texts`, or null if the queue is full. Rejects with the signal's reason if it's
   * aborted.
   */
  add(texts: readonly string[], signal: AbortSignal): Promise<readonly Embedding[]> | null;
}

interface Waiting {
  readonly texts: readonly string[];
  readonly characters: number;
  readonly done: Embedding[];
  readonly signal: AbortSignal;
  readonly resolve: (embeddings: readonly Embedding[]) => void;
  readonly reject: (reason: unknown) => void;
}

const limits = { requests: 256, characters: 8 * 1024 * 1024 };
/** Enough for the longest query of a search. */
const maxShortCharacters = 2_200;
const shortTurns = 4;

export function createEmbeddingQueue(embed: Embed): EmbeddingQueue {
  const short: Waiting[] = [];
  const long: Waiting[] = [];
  let characters = 0;
  let isRunning = false;

  const run = async (): Promise<void> => {
    for (let turn = 1; short.length + long.length > 0; turn += 1) {
      const isLongTurn = short.length === 0 || (long.length > 0 && turn % (shortTurns + 1) === 0);
      await embedNext(isLongTurn ? long : short);
      // Let new requests arrive before we choose the next one.
      await nextTurn();
    }
    isRunning = false;
  };

  const embedNext = async (requests: Waiting[]): Promise<void> => {
    const [first] = requests;
    if (!first) return;
    const { texts, done, signal } = first;
    const end = (settle: () => void): void => {
      requests.shift();
      characters -= first.characters;
      settle();
    };
    if (signal.aborted) return end(() => first.reject(signal.reason));
    try {
      done.push(await embed(texts[done.length] ?? ''));
    } catch (error) {
      return end(() => first.reject(error));
    }
    if (done.length === texts.length) end(() => first.resolve(done));
  };

  return {
    add(texts, signal) {
      const added = texts.reduce((sum, text) => sum + text.length, 0);
      if (short.length + long.length >= limits.requests || characters + added > limits.characters) return null;
      characters += added;
      const { promise, resolve, reject } = Promise.withResolvers<readonly Embedding[]>();
      (added <= maxShortCharacters ? short : long).push({ texts, characters: added, done: [], signal, resolve, reject });
      if (!isRunning) {
        isRunning = true;
        void run();
      }
      return promise;
    },
  };
}
