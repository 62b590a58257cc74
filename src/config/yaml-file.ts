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
  location(path: Path): string;
  /** The number at `path` as it is written. */
  getSourceText(path: Path): string | null;
}

/** Reads the text; syntax errors and variables that are not set go to `faults`. */
export function parseYamlFile(text: string, fileName: string, env: Environment, errors: string[]): YamlFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const starts = new Map<string, number>();
  const sources = new Map<string, string>();

  const location = (path: Path): string => {
    // A fault of what is missing has the line of the nearest thing around it that is there.
    let line: number | undefined;
    for (let length = path.length; length > 0 && line === undefined; length -= 1) line = starts.get(pathKey(path.slice(0, length)));
    return [line === undefined ? fileName : `${fileName}:${line}`, path.join('.')].filter((part) => part !== '').join(' ');
  };

  const substitute = (value: string, path: Path): string =>
    value.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (whole, name: string) => {
      const setting = env[name];
      if (setting !== undefined && setting !== '') return setting;
      errors.push(`${location(path)}: the environment variable ${name} is not set`);
      return whole;
    });

  const toValue = (node: unknown, path: Path): unknown => {
    // A few lines of aliases within aliases would come to gigabytes, and an alias of what is around it never ends.
    if (isAlias(node)) {
      errors.push(`${location(path)}: aliases (*${node.source}) are not supported; write it out`);
      return null;
    }
    if (isMap<Node, Node>(node)) {
      const entries = node.items.map(({ key, value }) => {
        const name = isScalar(key) ? String(key.source ?? key.value) : String(key);
        const inside = [...path, name];
        recordLine(inside, isScalar(key) ? key.range?.[0] : undefined);
        return [name, toValue(value, inside)];
      });
      return Object.fromEntries(entries);
    }
    if (isSeq<Node>(node)) {
      return node.items.map((item, index) => {
        recordLine([...path, index], item.range?.[0]);
        return toValue(item, [...path, index]);
      });
    }
    if (!isScalar(node)) return null;
    if (typeof node.value === 'number') sources.set(pathKey(path), node.source ?? String(node.value));
    return typeof node.value === 'string' ? substitute(node.value, path) : node.value;
  };

  const recordLine = (path: Path, offset: number | undefined): void => {
    if (offset !== undefined) starts.set(pathKey(path), lines.linePos(offset).line);
  };

  // Behind its first mistake the rest of a file is read as what it is not: what is said of that helps nobody. Keys that stand twice are each
  // a mistake of their own.
  const firstBroken = document.errors.findIndex(({ code }) => code !== 'DUPLICATE_KEY');
  const reported = firstBroken < 0 ? document.errors : document.errors.slice(0, firstBroken + 1);
  for (const { pos, message } of reported) {
    const { line, col } = lines.linePos(pos[0]);
    errors.push(`${fileName}:${line}:${col}: ${message.split('\n', 1)[0]}`);
  }
  const value = document.errors.length > 0 ? {} : (toValue(document.contents, []) ?? {});
  return { value, location, getSourceText: (path) => sources.get(pathKey(path)) ?? null };
}

function pathKey(path: Path): string {
  return JSON.stringify(path.map(String));
}
