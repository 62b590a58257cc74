/**
 * Answers in memory, bounded in bytes: the one longest unused goes first. There are no timers; what is too old is no longer found, and
 * leaves when it is looked for or when its turn comes.
 */

export type AnswerForm = 'plain' | 'stream';

export interface KeptAnswer {
  /** As it went to the caller; a buffer of its own, so that nothing larger is held with it. */
  readonly bytes: Buffer;
  readonly contentType: string;
  /** `<provider>/<model>` that answered. */
  readonly model: string;
  readonly projectId: string;
  /** SHA-256 (hexadecimal) of the subjects whose data may be in it, for erasure. */
  readonly subjects: readonly string[];
  readonly keptAt: number;
  /** As the project's settings were then; they may be stricter now. */
  readonly expiresAt: number;
}

export interface AnswerStore {
  /** Null when there is none younger than `ttlMs`. */
  find(name: string, now: number, ttlMs: number): KeptAnswer | null;
  /** An answer was used: it goes last. */
  touch(name: string): void;
  keep(name: string, answer: KeptAnswer): void;
  remove(name: string): void;
  /** Returns how many went. */
  drop(isMeant: (answer: KeptAnswer) => boolean): number;
  state(): { readonly entries: number; readonly bytes: number; readonly evicted: number };
}

/** What an entry needs beside its bytes: key, strings, objects, the buffer's own record. Small answers must not outgrow the bound by it. */
const overheadBytes = 1_024;

export function createAnswerStore(maxBytes: number): AnswerStore {
  /** In the order of their last use. */
  const answers = new Map<string, KeptAnswer>();
  let bytes = 0;
  let evicted = 0;

  const remove = (name: string): void => {
    const answer = answers.get(name);
    if (!answer) return;
    answers.delete(name);
    bytes -= sizeOf(answer);
  };

  return {
    find(name, now, ttlMs) {
      const answer = answers.get(name);
      if (!answer) return null;
      if (now < answer.expiresAt && now < answer.keptAt + ttlMs) return answer;
      remove(name);
      return null;
    },
    touch(name) {
      const answer = answers.get(name);
      if (!answer) return;
      answers.delete(name);
      answers.set(name, answer);
    },
    keep(name, answer) {
      remove(name);
      answers.set(name, answer);
      bytes += sizeOf(answer);
      for (const [oldest, first] of answers) {
        const isOver = bytes > maxBytes;
        if (!isOver && first.expiresAt > answer.keptAt) break;
        remove(oldest);
        if (isOver) evicted += 1;
      }
    },
    remove,
    drop(isMeant) {
      const meant = [...answers].filter(([, answer]) => isMeant(answer));
      for (const [name] of meant) remove(name);
      return meant.length;
    },
    state: () => ({ entries: answers.size, bytes, evicted }),
  };
}

function sizeOf({ bytes }: KeptAnswer): number {
  return bytes.length + overheadBytes;
}
