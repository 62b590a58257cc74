/**
 * Broken versions of the product. They show that the simulations find such defects. A mutant replaces a passage in one
 * of the source files. The affected modules are loaded again with a query in their URLs. None of this is part of the
 * product.
 */
import { registerHooks } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';

export interface Mutant {
  readonly name: string;
  /** Path in the repository. */
  readonly file: string;
  /** Occurs once in the file. */
  readonly passage: string;
  readonly replacement: string;
  /** How many seeds were needed to find it. */
  readonly seeds: number;
}

const root = new URL('../../', import.meta.url).href;
const loaded = new Map<string, Mutant>();

registerHooks({
  resolve(specifier, context, next) {
    const resolved = next(specifier, context);
    const mutant = context.parentURL && new URL(context.parentURL).searchParams.get('mutant');
    if (!mutant || !resolved.url.startsWith(root) || resolved.url.includes('/node_modules/')) return resolved;
    return { ...resolved, url: `${resolved.url}?mutant=${encodeURIComponent(mutant)}` };
  },
  load(url, context, next) {
    const mutant = url.startsWith(root) ? loaded.get(new URL(url).searchParams.get('mutant') ?? '') : undefined;
    const module = next(url, context);
    if (!mutant || fileURLToPath(url.split('?')[0] ?? url) !== fileURLToPath(new URL(mutant.file, root))) return module;
    return { ...module, source: mutate(String(module.source), mutant) };
  },
});

/** Loads a module, and all that it imports from the repository, with the mutant. */
export function importWithMutant(module: URL, mutant: Mutant): Promise<Record<string, unknown>> {
  loaded.set(mutant.name, mutant);
  return import(`${pathToFileURL(fileURLToPath(module)).href}?mutant=${encodeURIComponent(mutant.name)}`);
}

function mutate(source: string, { file, passage, replacement, name }: Mutant): string {
  const parts = source.split(passage);
  if (parts.length !== 2) throw new Error(`mutant '${name}': its passage occurs ${parts.length - 1} times in ${file}`);
  return parts.join(replacement);
}
