/**
 * Parses gateway.yaml into plain values. We remember the line of each path, and the source text of each number so that
 * prices never become binary fractions. `${NAME}` is substituted after parsing, so that the value of a variable can
 * never change the structure of the file.
 */
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import type { Environment } from './environment.ts';

export type Path = readonly (string | number)[];

/** Adds an error at a path. */
export type AddError = (path: Path, message: string) => void;

const reference = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g;

export interface YamlFile {
  /** Empty if there was a syntax error. */
  readonly value: unknown;
  readonly hasSyntaxError: boolean;
  /** Returns the prefix for an error at `path`, e.g. `gateway.yaml:12 providers.openai.base_url`. */
  location(path: Path): string;
  /** Returns the source text of the number at `path`, or null. */
  getSourceText(path: Path): string | null;
}

/** Returns the names of all variables in `${NAME}` references, no matter where they are. */
export function environmentReferences(text: string): string[] {
  return [...text.matchAll(reference)].map(([, name = '']) => name);
}

export interface YamlFileOptions {
  readonly fileName: string;
  readonly env: Environment;
  /**
   * Tells whether a variable's value should come from a file that has a mistake. We don't report such a variable as
   * missing, because the mistake is already reported elsewhere.
   */
  readonly hasBadFile?: (variable: string) => boolean;
}

/** Parses the text. Adds syntax errors and variables that aren't set to `errors`. */
export function parseYamlFile(text: string, { fileName, env, hasBadFile = () => false }: YamlFileOptions, errors: string[]): YamlFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const starts = new Map<string, number>();
  const sources = new Map<string, string>();

  const location = (path: Path): string => {
    // If the key is missing, we use the line of its closest ancestor that exists.
    let line: number | undefined;
    for (let length = path.length; length > 0 && line === undefined; length -= 1) line = starts.get(pathKey(path.slice(0, length)));
    return [line === undefined ? fileName : `${fileName}:${line}`, path.join('.')].filter((part) => part !== '').join(' ');
  };

  const substitute = (value: string, path: Path): string =>
    value.replace(reference, (whole, name: string) => {
      const setting = env[name];
      if (setting !== undefined && setting !== '') return setting;
      if (!hasBadFile(name)) errors.push(`${location(path)}: the environment variable ${name} is not set`);
      return whole;
    });

  const toValue = (node: unknown, path: Path): unknown => {
    // We don't support aliases, because a few lines of nested aliases can expand to gigabytes, and an alias of an
    // ancestor never ends.
    if (isAlias(node)) {
      errors.push(`${location(path)}: aliases (*${node.source}) are not supported; write out the value instead`);
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

  // After the first syntax error the parser misreads the rest of the file, so we don't report any errors after it.
  // Duplicate keys don't affect other errors.
  const firstBroken = document.errors.findIndex(({ code }) => code !== 'DUPLICATE_KEY');
  const reported = firstBroken < 0 ? document.errors : document.errors.slice(0, firstBroken + 1);
  for (const { pos, message } of reported) {
    const { line, col } = lines.linePos(pos[0]);
    errors.push(`${fileName}:${line}:${col}: ${message.split('\n', 1)[0]}`);
  }
  const hasSyntaxError = document.errors.length > 0;
  const value = hasSyntaxError ? {} : (toValue(document.contents, []) ?? {});
  return { value, hasSyntaxError, location, getSourceText: (path) => sources.get(pathKey(path)) ?? null };
}

function pathKey(path: Path): string {
  return JSON.stringify(path.map(String));
}
