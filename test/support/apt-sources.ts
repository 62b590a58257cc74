/**
 * Finds the Debian archive in the machine's apt configuration, because pgvector's source package comes from there.
 * There are no side effects.
 */

/** An entry in apt's sources, with the options that make apt trust it. */
export interface AptSource {
  types: string[];
  uris: string[];
  suites: string[];
  components: string[];
  /** All other options of the entry, e.g. `Signed-By`. Their names are in lower case, as in deb822 files. */
  options: Record<string, string>;
}

/** Parses the entries of `*.sources` files. They are in deb822 format, i.e. blocks of `Name: value` lines. */
export function parseDeb822(text: string): AptSource[] {
  return text
    .split(/\n\s*\n/)
    .map(parseFields)
    .filter((fields) => fields.has('types') && fields.get('enabled') !== 'no')
    .map((fields) => {
      const fieldValues = (name: string) => (fields.get(name) ?? '').split(/\s+/).filter((word) => word !== '');
      const options = Object.fromEntries([...fields].filter(([name]) => ['signed-by', 'trusted'].includes(name)));
      return {
        types: fieldValues('types'),
        uris: fieldValues('uris'),
        suites: fieldValues('suites'),
        components: fieldValues('components'),
        options,
      };
    });
}

/** Parses the entries of `*.list` files, e.g. `deb [signed-by=…] uri suite component…`. */
export function parseOneLine(text: string): AptSource[] {
  return text.split('\n').flatMap((line) => {
    const found = /^\s*(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)/.exec(line);
    if (found === null) return [];
    const [, type = '', settings = '', uri = '', suite = '', components = ''] = found;
    const options = Object.fromEntries(
      settings
        .split(/\s+/)
        .map((setting) => setting.split('='))
        .flatMap(([name = '', value = '']) => (['signed-by', 'trusted'].includes(name) ? [[name, value.replaceAll(',', ' ')]] : [])),
    );
    return [{ types: [type], uris: [uri], suites: [suite], components: components.split(/\s+/).filter((word) => word !== ''), options }];
  });
}

/**
 * Only Debian itself has suites with these names and a component `main`. Other archives (PGDG, Node, other vendors)
 * differ in at least one of them.
 */
const DEBIAN_SUITE = /^(bullseye|bookworm|trixie|forky|sid|unstable|testing|stable|oldstable)$/;

/**
 * Returns a source list in deb822 format that has the source packages of `suite`. It uses the same archive from which
 * this machine gets Debian. Returns null if there's no such archive in `sources`.
 */
export function sourceListFor(suite: string, sources: readonly AptSource[]): string | null {
  const archive = sources.find(
    ({ types, suites, components }) =>
      types.includes('deb') && components.includes('main') && suites.some((name) => DEBIAN_SUITE.test(name)),
  );
  if (archive === undefined) return null;
  const options = Object.entries(archive.options).map(([name, value]) => `${name}: ${value}\n`);
  return `types: deb-src\nuris: ${archive.uris.join(' ')}\nsuites: ${suite}\ncomponents: main\n${options.join('')}`;
}

function parseFields(block: string): Map<string, string> {
  const fields = new Map<string, string>();
  let current = '';
  for (const line of block.split('\n')) {
    if (line.startsWith('#')) continue;
    const found = /^([A-Za-z-]+):\s*(.*)$/.exec(line);
    if (found !== null) {
      current = (found[1] ?? '').toLowerCase();
      fields.set(current, found[2]?.trim() ?? '');
    } else if (current !== '' && line.trim() !== '') {
      // This line begins with a blank, so it belongs to the same value. In a key, ` .` is an empty line.
      fields.set(current, `${fields.get(current)}\n${line}`);
    }
  }
  return fields;
}
