import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from '@jest/globals';
import manifest from '../../package.json' with { type: 'json' };

/** Returns the files that a script imports statically, directly or not. */
function importedBy(file: string, found = new Set<string>()): ReadonlySet<string> {
  for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(/^(?:import|\} from|export .* from)\b.*?'(\.[^']+)'/gm)) {
    const imported = join(dirname(file), path);
    if (found.has(imported)) continue;
    found.add(imported);
    if (imported.endsWith('.js')) importedBy(imported, found);
  }
  return found;
}

/** These run programs that `npm install` has installed. */
const programs = ['check', 'fix'];

const scripts = Object.entries(manifest.scripts).flatMap(([name, command]) => {
  const [, file] = /^node (scripts\/\S+\.js)/.exec(command) ?? [];
  return file === undefined ? [] : [{ name, file, script: /^node scripts\/run\.js (\S+)/.exec(command)?.[1] }];
});

test('finds the source file of every npm script', () => {
  expect(Object.keys(manifest.scripts).filter((name) => !scripts.some((script) => script.name === name))).toEqual(programs);
});

test.each(scripts)('npm run $name starts with a Node version that cannot load TypeScript', ({ file, script }) => {
  expect([...importedBy(file)].filter((path) => path.endsWith('.ts'))).toEqual([]);
  if (script !== undefined) expect(existsSync(join('scripts', script))).toBe(true);
});
