/** Collects the parts of chains that have to be stored, and packs extras whose texts are new (see `packed-extras.ts`). */
import type { ChainPart, ExtraPart, Sha256 } from './chain.ts';
import { type PackableExtra, type PackedExtras, packExtras } from './packed-extras.ts';
import { takeNewText } from './store-extra-texts.ts';

export type Part = ChainPart | ExtraPart;

/**
 * A chain of parts from a call's prompt and response. From index `uncheckedFrom` on, the parts are nearly always new,
 * so we insert them without looking them up first.
 */
export interface Chain {
  readonly projectId: string;
  readonly createdAt: number;
  readonly parts: readonly Part[];
  readonly uncheckedFrom: number;
  /**
   * True for a chain of extras. The database may only have the last one of several parts, because the others are packed
   * into it. To find out which parts are new, we have to look up all of them.
   */
  readonly isPacked: boolean;
}

export interface NewPart {
  readonly projectId: string;
  readonly createdAt: number;
  /** The last one, if several extras are packed. */
  readonly part: Part;
  readonly parentHash: Sha256 | null;
  readonly packed?: PackedExtras;
}

type Added = Omit<NewPart, 'projectId' | 'createdAt'>;

/**
 * We don't add more extras to a packed part once their texts have this many characters. A part of this size is about a
 * tenth smaller than four parts of 65,536 characters (measured).
 */
const maxPackedLength = 262_144;

const none: ReadonlySet<string> = new Set();

/** Collects the parts to store, without duplicates. Calls of the same batch may share parts. */
export class NewParts {
  readonly #parts: NewPart[] = [];
  readonly #hashes = new Map<string, Set<Sha256>>();

  /** Adds the parts of a chain from index `from` on, except for those whose keys are in `stored`. */
  addFrom(from: number, chain: Chain, stored = none): void {
    const { projectId, createdAt, parts } = chain;
    let hashes = this.#hashes.get(projectId);
    if (!hashes) {
      hashes = new Set();
      this.#hashes.set(projectId, hashes);
    }
    const added: Added[] = [];
    if (chain.isPacked) {
      let start = parts.length;
      while (start > from && !hashes.has(parts[start - 1]?.hash ?? '')) start -= 1;
      if (start < parts.length) added.push(...packNewTexts(projectId, parts.filter(isExtra), start));
    } else {
      for (let at = from; at < parts.length; at += 1) {
        const part = parts[at];
        if (part && !hashes.has(part.hash) && !(stored.size > 0 && stored.has(keyOf(chain, at)))) added.push(asIs(part));
      }
    }
    for (const each of added) {
      hashes.add(each.part.hash);
      this.#parts.push({ projectId, createdAt, ...each });
    }
  }

  list(): readonly NewPart[] {
    return this.#parts;
  }
}

/** Returns the parts of a chain from index `start` on. Packs parts that follow each other if their texts are new. */
function packNewTexts(projectId: string, parts: readonly ExtraPart[], start: number): Added[] {
  const added: Added[] = [];
  let run: PackableExtra[] = [];
  let length = 0;
  const addRun = (end: number) => {
    const [first, last] = [parts[end - run.length], parts[end - 1]];
    if (run.length > 0 && first && last) added.push({ part: last, parentHash: first.parentHash, packed: packExtras(run) });
    run = [];
    length = 0;
  };
  // If a chain doesn't continue a stored one and its first text is one that we've seen before, the client has probably
  // changed or dropped a part of its history. It's going to send the other texts again, too, so share all of them.
  let sharesTexts = start > 0 ? false : null;
  for (const [index, part] of parts.entries()) {
    if (index < start) continue;
    const text: string | null = sharesTexts ? null : takeNewText(projectId, part);
    if (part.textHash !== null) sharesTexts ??= text === null;
    if (text === null) {
      addRun(index);
      added.push(asIs(part));
      continue;
    }
    run.push({ role: part.role, details: part.details, position: part.position, text });
    length += text.length;
    if (length >= maxPackedLength) addRun(index + 1);
  }
  addRun(parts.length);
  return added;
}

function asIs(part: Part): Added {
  return { part, parentHash: part.parentHash };
}

export function isExtra(part: Part): part is ExtraPart {
  return 'position' in part;
}

/** Returns the key of the part at an index of a chain. It contains the project, because another one may have it too. */
export function keyOf({ projectId, parts }: Pick<Chain, 'projectId' | 'parts'>, at: number): string {
  return `${projectId}${parts[at]?.hash}`;
}
