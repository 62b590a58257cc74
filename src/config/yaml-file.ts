/**
 * gateway.yaml as plain values that remember where they stood: the line of each path, and the text of each number (a price must reach its
 * integer without having been a binary fraction). `${NAME}` is replaced inside of parsed strings, so that a value from the environment
 * can never change the file's structure.
 */
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import type { Environment } from './environment.ts';

export type Path = readonly (string | number)[];

export interface YamlFile {
  readonly value: unknown;
  /** How a fault at `path` begins: `gateway.yaml:12 providers.openai.base_url`. */
  place(path: Path): string;
  /** The number at `path` as it is written. */
  sourceOf(path: Path): string | null;
}

/** Reads the text; syntax errors and variables that are not set go to `faults`. */
export function readYamlFile(text: string, fileName: string, env: Environment, faults: string[]): YamlFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const starts = new Map<string, number>();
  const sources = new Map<string, string>();

  const place = (path: Path): string => {
    // A fault of what is missing has the line of the nearest thing around it that is there.
    let line: number | undefined;
    for (let length = path.length; length > 0 && line === undefined; length -= 1) line = starts.get(keyOf(path.slice(0, length)));
    return [line === undefined ? fileName : `${fileName}:${line}`, path.join('.')].filter((part) => part !== '').join(' ');
  };

  const substitute = (value: string, path: Path): string =>
    value.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (whole, name: string) => {
      const found = env[name];
      if (found !== undefined && found !== '') return found;
      faults.push(`${place(path)}: the environment variable ${name} is not set`);
      return whole;
    });

  const read = (node: unknown, path: Path): unknown => {
    // A few lines of aliases within aliases would come to gigabytes, and an alias of what is around it never ends.
    if (isAlias(node)) {
      faults.push(`${place(path)}: aliases (*${node.source}) are not supported; write it out`);
      return null;
    }
    if (isMap<Node, Node>(node)) {
      const entries = node.items.map(({ key, value }) => {
        const name = isScalar(key) ? String(key.source ?? key.value) : String(key);
        const inside = [...path, name];
        note(inside, isScalar(key) ? key.range?.[0] : undefined);
        return [name, read(value, inside)];
      });
      return Object.fromEntries(entries);
    }
    if (isSeq<Node>(node)) {
      return node.items.map((item, index) => {
        note([...path, index], item.range?.[0]);
        return read(item, [...path, index]);
      });
    }
    if (!isScalar(node)) return null;
    if (typeof node.value === 'number') sources.set(keyOf(path), node.source ?? String(node.value));
    return typeof node.value === 'string' ? substitute(node.value, path) : node.value;
  };

  const note = (path: Path, offset: number | undefined): void => {
    if (offset !== undefined) starts.set(keyOf(path), lines.linePos(offset).line);
  };

  // Behind its first mistake the rest of a file is read as what it is not: what is said of that helps nobody. Keys that stand twice are each
  // a mistake of their own.
  const firstBroken = document.errors.findIndex(({ code }) => code !== 'DUPLICATE_KEY');
  const told = firstBroken < 0 ? document.errors : document.errors.slice(0, firstBroken + 1);
  for (const { pos, message } of told) {
    const { line, col } = lines.linePos(pos[0]);
    faults.push(`${fileName}:${line}:${col}: ${message.split('\n', 1)[0]}`);
  }
  const value = document.errors.length > 0 ? {} : (read(document.contents, []) ?? {});
  return { value, place, sourceOf: (path) => sources.get(keyOf(path)) ?? null };
}

function keyOf(path: Path): string {
  return JSON.stringify(path.map(String));
}
