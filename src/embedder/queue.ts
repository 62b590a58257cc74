/**
 * Decides in which order texts are embedded. We embed one text at a time, so that a request with many texts delays a
 * short one by at most one text.
 *
 * Short requests, such as a search query or the message for a recall, go first. After a few of them, a text from a long
 * request gets its turn, so that passages are still embedded in the background under load. The number of requests and
 * characters in the queue is limited.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Embed, Embedding } from './model.ts';

export type EmbeddingQueue = ReturnType<typeof createEmbeddingQueue>;

interface Waiting {
  readonly embed: Embed;
  readonly texts: readonly string[];
  readonly characters: number;
  readonly done: Embedding[];
  readonly signal: AbortSignal;
  readonly outcome: PromiseWithResolvers<readonly Embedding[]>;
}

const limits = { requests: 256, characters: 8 * 1024 * 1024 };
/** Texts up to this length jump the queue. Even the longest search query isn't longer than this. */
const maxShortCharacters = 2_200;
const shortTurns = 4;

export function createEmbeddingQueue() {
  const short: Waiting[] = [];
  const long: Waiting[] = [];
  let characters = 0;
  let isRunning = false;

  const run = async (): Promise<void> => {
    for (let turn = 1; short.length + long.length > 0; turn += 1) {
      const isLongTurn = short.length === 0 || (long.length > 0 && turn % (shortTurns + 1) === 0);
      await embedNext(isLongTurn ? long : short);
      // Yield to the event loop, so that new requests can enter the queue before we choose the next one.
      await nextTurn();
    }
    isRunning = false;
  };

  const embedNext = async (requests: Waiting[]): Promise<void> => {
    const [first] = requests;
    if (!first) return;
    const { embed, texts, done, signal, outcome } = first;
    const end = (settle: () => void): void => {
      requests.shift();
      characters -= first.characters;
      settle();
    };
    if (signal.aborted) return end(() => outcome.reject(signal.reason));
    try {
      done.push(await embed(texts[done.length] ?? ''));
    } catch (error) {
      return end(() => outcome.reject(error));
    }
    if (done.length === texts.length) end(() => outcome.resolve(done));
  };

  return {
    /**
     * Returns a vector for each text, in the same order, or null if the queue is full. If the signal is aborted,
     * rejects with its reason.
     */
    add(embed: Embed, texts: readonly string[], signal: AbortSignal): Promise<readonly Embedding[]> | null {
      const added = texts.reduce((sum, text) => sum + text.length, 0);
      if (short.length + long.length >= limits.requests || characters + added > limits.characters) return null;
      characters += added;
      const outcome = Promise.withResolvers<readonly Embedding[]>();
      (added <= maxShortCharacters ? short : long).push({ embed, texts, characters: added, done: [], signal, outcome });
      if (!isRunning) {
        isRunning = true;
        void run();
      }
      return outcome.promise;
    },
  };
}
