/**
 * Packs several extras of a prompt into one part, e.g. all tool results of a session's first request. Texts that are
 * compressed together take up less space, and there's only one row to find and delete.
 *
 * A packed part begins with a line of JSON, which lists the kind, type, position and length of each extra. Their texts
 * follow, one after the other.
 */
import { parseJsonOrThrow } from '../../core/json/parse.ts';
import type { ExtraPart } from './chain.ts';
import { packText, unpackText } from './packed-text.ts';

export type PackableExtra = Pick<ExtraPart, 'role' | 'details' | 'position' | 'text'>;

export interface UnpackedExtra {
  readonly kind: string;
  readonly type: string;
  readonly position: number;
  readonly text: string;
}

type Entry = readonly [kind: string, type: string, position: number, length: number];

export interface PackedExtras {
  /** Hexadecimal digits. */
  readonly content: string;
  readonly count: number;
}

export function packExtras(extras: readonly PackableExtra[]): PackedExtras {
  const entries = extras.map(({ role, details, position, text }): Entry => [role, details.type, position, text.length]);
  const { content } = packText(`${JSON.stringify(entries)}\n${extras.map(({ text }) => text).join('')}`);
  return { content, count: extras.length };
}

export function unpackExtras(content: Uint8Array): UnpackedExtra[] {
  const text = unpackText({ content, isCompressed: content[0] !== bracket });
  let end = text.indexOf('\n');
  const entries = parseJsonOrThrow(text.slice(0, end)) as readonly Entry[];
  end += 1;
  return entries.map(([kind, type, position, length]) => {
    const start = end;
    end += length;
    return { kind, type, position, text: text.slice(start, end) };
  });
}

/** The first byte of the list, which neither deflated texts nor zstd frames begin with. */
const bracket = 0x5b;
