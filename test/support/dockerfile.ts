/** Reads the parts of the Dockerfile that tests need. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './gateway-process.ts';

export interface Dockerfile {
  readonly text: string;
  /** The base images of all stages. */
  readonly from: readonly string[];
  /** The files and folders of the repository that the last stage copies into /gateway. */
  readonly copied: readonly string[];
  /** The environment of the last stage. Includes the default values of its arguments. */
  readonly env: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  /** All instructions. Continued lines have been joined. */
  readonly instructions: readonly string[];
}

export function readDockerfile(): Dockerfile {
  const text = readFileSync(join(root, 'Dockerfile'), 'utf8');
  const instructions = text
    .replace(/^#.*\n/gm, '')
    .replace(/\s*\\\n\s*/g, ' ')
    .split('\n')
    .filter((line) => line !== '');
  const last = instructions.slice(instructions.findLastIndex((line) => line.startsWith('FROM ')));
  const arrayOf = (name: string): string[] => JSON.parse(last.find((line) => line.startsWith(`${name} [`))?.slice(name.length) ?? '[]');
  const defaults = new Map(
    last.filter((line) => line.startsWith('ARG ')).map((line) => line.slice('ARG '.length).split('=', 2) as [string, string]),
  );
  const copies = instructions.filter((line) => line.startsWith('COPY ') && !line.includes('--from='));
  return {
    text,
    from: instructions.filter((line) => line.startsWith('FROM ')).map((line) => line.split(' ')[1] ?? ''),
    copied: [
      'node_modules',
      ...new Set(copies.flatMap((line) => line.split(' ').slice(1, -1)).filter((path) => path !== 'package-lock.json')),
    ],
    env: Object.fromEntries(
      last
        .filter((line) => line.startsWith('ENV '))
        .flatMap((line) => line.slice('ENV '.length).split(' '))
        .map((pair) => pair.replaceAll(/\$(\w+)/g, (_whole, name: string) => defaults.get(name) ?? '').split('=', 2) as [string, string]),
    ),
    entrypoint: arrayOf('ENTRYPOINT'),
    command: arrayOf('CMD'),
    instructions,
  };
}
