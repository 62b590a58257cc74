/**
 * Parses gateway.yaml into plain values. Errors need the line of a setting, and prices have to stay exact, so we also
 * keep the line of each path and the source text of each number. `${NAME}` is only substituted after parsing, which
 * means that a value can never change the structure of the file.
 */
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import type { Environment } from './environment.ts';

export type Path = readonly (string | number)[];

export type AddError = (path: Path, message: string) => void;

const reference = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g;

export type YamlFile = ReturnType<typeof parseYamlFile>;

/** Returns the names in all `${NAME}` references, including those in comments. */
export function environmentReferences(text: string): string[] {
  return [...text.matchAll(reference)].map(([, name = '']) => name);
}

export interface YamlFileOptions {
  readonly fileName: string;
  readonly env: Environment;
  /**
   * Returns true if the variable comes from a secret file with an error. The error has already been reported, so the
   * variable isn't reported as missing.
   */
  readonly hasBadFile?: (variable: string) => boolean;
}

/** Parses the text. Adds an error to `errors` for syntax errors and unset variables. */
export function parseYamlFile(text: string, { fileName, env, hasBadFile = () => false }: YamlFileOptions, errors: string[]) {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const starts = new Map<string, number>();
  const sources = new Map<string, string>();

  /** Returns the prefix for an error at `path`, e.g. `gateway.yaml:12 providers.openai.base_url`. */
  const location = (path: Path): string => {
    // For a missing key, report the line of its closest ancestor.
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
    // Reject aliases. With a few lines of nested aliases, a file could expand to gigabytes, and an alias that points to
    // its own ancestor would never end.
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

  // Don't report anything after the first syntax error, because the parser misreads the rest of the file. Duplicate
  // keys are an exception, since they don't affect anything else.
  const firstBroken = document.errors.findIndex(({ code }) => code !== 'DUPLICATE_KEY');
  const reported = firstBroken < 0 ? document.errors : document.errors.slice(0, firstBroken + 1);
  for (const { pos, message } of reported) {
    const { line, col } = lines.linePos(pos[0]);
    errors.push(`${fileName}:${line}:${col}: ${message.split('\n', 1)[0]}`);
  }
  const hasSyntaxError = document.errors.length > 0;
  /** If there's a syntax error, we don't use anything from the file. */
  const value: unknown = hasSyntaxError ? {} : (toValue(document.contents, []) ?? {});
  return { value, hasSyntaxError, location, getSourceText: (path: Path): string | null => sources.get(pathKey(path)) ?? null };
}

function pathKey(path: Path): string {
  return JSON.stringify(path.map(String));
}
