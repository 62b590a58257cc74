/**
 * The rules of the house as data, and a pure function that finds what breaks them. `test/architecture.test.ts` reads the tree and asks it.
 * Changing a table needs a note in docs/decisions.
 */

/** A source file: its path from the root of the repository, with `/`. */
export interface SourceFile {
  path: string;
  text: string;
}

const ROOMS_OF_DATA = ['keys', 'projects', 'people', 'ceilings', 'journal', 'usage', 'memory', 'videos'];
const FOUNDATION = ['db', 'core', 'observability'];
const WORKFLOW_CONTRACT = 'workflows/contract.ts';
const WORKFLOW_INDEX = 'workflows/index.ts';

/**
 * Which rooms a room may import, not even types beyond. A name is a room: a folder of `src`, `main` and `app` for the files of that name,
 * `workflows`, `activities`; or one file.
 */
/** They start what `app` joins, so `app` may not import them. */
export const ABOVE_APP: readonly string[] = ['main', 'service'];

export const DIRECTIONS: Record<string, readonly string[] | 'everything'> = {
  main: ['service', 'cli', 'config', 'core', 'demo-vendor'],
  service: ['app', 'cli', 'config', 'db', 'demo-vendor', 'core', 'observability'],
  app: 'everything',
  cli: ['config', 'core'],
  http: ['pipeline', 'routing', 'keys', 'projects', 'people', 'ceilings', 'usage', 'memory', 'jobs', 'dialects', 'failover', ...FOUNDATION],
  console: [
    'pipeline',
    'routing',
    'keys',
    'projects',
    'people',
    'ceilings',
    'usage',
    'memory',
    'jobs',
    'dialects',
    'failover',
    ...FOUNDATION,
  ],
  activities: [
    'pipeline',
    'routing',
    'vendors',
    'ceilings',
    'journal',
    'projects',
    'memory',
    'usage',
    'videos',
    'jobs',
    ...FOUNDATION,
    WORKFLOW_CONTRACT,
  ],
  pipeline: [
    'routing',
    'vendors',
    'ceilings',
    'usage',
    'journal',
    'memory',
    'videos',
    'guardrails',
    'failover',
    'dialects',
    'core',
    'observability',
  ],
  routing: ['vendors', 'projects', 'failover', 'dialects', 'db', 'core'],
  ...Object.fromEntries(ROOMS_OF_DATA.map((room) => [room, ['dialects', 'guardrails', ...FOUNDATION]])),
  vendors: ['dialects', 'core'],
  jobs: [...FOUNDATION, WORKFLOW_CONTRACT],
  config: ['core'],
  db: ['core'],
  dialects: ['core'],
  guardrails: ['core'],
  failover: ['core'],
  core: [],
  observability: [],
  workflows: [],
  'demo-vendor': [],
};

/** What only some files may use. `packages` are imports, also of types; a name that ends in `/` stands for all of a scope. */
export interface Door {
  name: string;
  packages?: readonly string[];
  pattern?: RegExp;
  /** Files, or folders with a `/` at their end. */
  allowed: readonly string[];
}

export const DOORS: readonly Door[] = [
  { name: 'process.env', pattern: /\bprocess\s*\.\s*env\b/, allowed: ['src/config/', 'src/main.ts'] },
  { name: 'process.argv', pattern: /\bprocess\s*\.\s*argv\b/, allowed: ['src/config/', 'src/main.ts'] },
  { name: 'process.exit', pattern: /\bprocess\s*\.\s*exit\b/, allowed: ['src/config/', 'src/main.ts'] },
  { name: 'Date.now', pattern: /\bDate\s*\.\s*now\b/, allowed: ['src/core/time.ts'] },
  { name: 'node:cluster', packages: ['node:cluster'], allowed: ['src/service/'] },
  { name: 'undici', packages: ['undici'], allowed: ['src/vendors/http-client.ts'] },
  { name: 'pg', packages: ['pg', '@electric-sql/'], allowed: ['src/db/'] },
  { name: 'express', packages: ['express'], allowed: ['src/http/', 'src/console/', 'src/demo-vendor/'] },
  {
    name: 'Temporal client and worker',
    packages: ['@temporalio/client', '@temporalio/worker'],
    allowed: ['src/jobs/client/temporal.ts', 'src/jobs/connection/temporal-connection.ts', 'src/jobs/worker/temporal-worker.ts'],
  },
  { name: '@temporalio/workflow', packages: ['@temporalio/workflow'], allowed: ['workflows/'] },
  { name: '@temporalio/activity', packages: ['@temporalio/activity'], allowed: ['activities/'] },
];

const MAX_LINES = 400;
const DRAWERS = /(^|[/.-])(utils?|helpers?)([/.-]|$)|\/types(\/|$)/;
const HOUSE = /^(src|workflows|activities)\//;

/** Every broken rule, each as one line that names the file and the rule. Files outside `src`, `workflows` and `activities` are not looked at. */
export function findViolations(files: readonly SourceFile[]): string[] {
  const house = files
    .filter(({ path }) => HOUSE.test(path) && path.endsWith('.ts'))
    .map((file) => ({ ...file, imports: readImports(file.text) }));
  const arrows = new Map(house.map((file) => [file.path, file.imports.flatMap((name) => resolveImport(file.path, name))]));
  return [
    ...[...arrows].flatMap(([path, targets]) => targets.flatMap((target) => judgeArrow(path, target))),
    ...findCycles(arrows),
    ...house.flatMap((file) => judgeDoors(file)),
    ...house.flatMap((file) => judgeWorkflowImports(file)),
    ...house.flatMap((file) => judgeShape(file)),
  ];
}

/** The modules a file imports or re-exports, also for types, also `import()`. */
export function readImports(text: string): string[] {
  const code = blankOut(text, 'comments');
  const statement = /(?:^|[;}\n])\s*(?:import|export)\b[^;'"`()]*?\bfrom\s*(['"])([^'"]+)\1/g;
  const sideEffect = /(?:^|[;}\n])\s*import\s*(['"])([^'"]+)\1/g;
  const dynamic = /\b(?:import|require)\s*\(\s*(['"`])([^'"`]+)\1/g;
  return [statement, sideEffect, dynamic].flatMap((pattern) => [...code.matchAll(pattern)].map((found) => found[2] ?? ''));
}

/** The room of a path; null outside of the house. */
function roomOf(path: string): string | null {
  const [top, second, ...deeper] = path.split('/');
  if (top === 'workflows' || top === 'activities') return top;
  if (top !== 'src' || second === undefined) return null;
  return deeper.length === 0 ? second.replace(/\.ts$/, '') : second;
}

function judgeArrow(from: string, to: string): string[] {
  const [room, target] = [roomOf(from), roomOf(to)];
  if (room === null || room === target) return [];
  const allowed = DIRECTIONS[room];
  if (allowed === undefined) return [`${from}: no room "${room}" in the direction table`];
  if (target === null) return [`${from}: imports ${to}, which is outside of the house`];
  const isAllowed = allowed === 'everything' ? !ABOVE_APP.includes(target) : allowed.includes(target) || allowed.includes(to);
  if (isAllowed) return [];
  return [`${from}: ${room} may not import ${target} (${to})`];
}

function judgeDoors({ path, text, imports }: SourceFile & { imports: string[] }): string[] {
  const code = blankOut(text, 'comments and strings');
  const uses = ({ packages, pattern }: Door) =>
    pattern?.test(code) === true || imports.some((name) => packages?.some((wanted) => isOfPackage(name, wanted)));
  const isAllowed = ({ allowed }: Door) => allowed.some((place) => (place.endsWith('/') ? path.startsWith(place) : path === place));
  return DOORS.filter((door) => uses(door) && !isAllowed(door)).map(
    (door) => `${path}: ${door.name} may be used only in ${door.allowed.join(', ')}`,
  );
}

/** Workflows run in Temporal's sandbox: they have its package and their contract, which itself has nothing. Arrows into rooms are judged above. */
function judgeWorkflowImports({ path, imports }: SourceFile & { imports: string[] }): string[] {
  if (roomOf(path) !== 'workflows') return [];
  const allowed = allowedInWorkflow(path);
  const wrong = imports.filter(
    (name) => !allowed.test(name) && !resolveImport(path, name).some((target) => roomOf(target) !== 'workflows'),
  );
  return wrong.map((name) => `${path}: a workflow may import only @temporalio/workflow and ./contract.ts, not ${name}`);
}

function allowedInWorkflow(path: string): RegExp {
  if (path === WORKFLOW_CONTRACT) return /^(?!)/;
  // What the worker bundles is one file, which lists the workflows.
  if (path === WORKFLOW_INDEX) return /^\.\/[^/]+\.ts$/;
  return /^(@temporalio\/workflow|\.\/contract\.ts)$/;
}

function judgeShape({ path, text }: SourceFile): string[] {
  const lines = text.replace(/\n$/, '').split('\n').length;
  return [
    ...(lines > MAX_LINES ? [`${path}: ${lines} lines, more than ${MAX_LINES}`] : []),
    ...(DRAWERS.test(path.replace(/\.ts$/, '')) ? [`${path}: no drawers called utils, types or helpers`] : []),
  ];
}

/** Each circle of files that import each other, once, from its first file in alphabetical order. */
function findCycles(arrows: ReadonlyMap<string, readonly string[]>): string[] {
  const found = new Set<string>();
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]) => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      found.add(describeCycle(trail.slice(start)));
    } else if (!done.has(path)) {
      for (const target of arrows.get(path) ?? []) visit(target, [...trail, path]);
      done.add(path);
    }
  };
  for (const path of arrows.keys()) visit(path, []);
  return [...found];
}

function describeCycle(members: readonly string[]): string {
  const first = members.indexOf([...members].sort()[0] ?? '');
  const ordered = [...members.slice(first), ...members.slice(0, first)];
  return `file cycle: ${[...ordered, ordered[0]].join(' -> ')}`;
}

function resolveImport(from: string, name: string): string[] {
  if (!name.startsWith('.')) return [];
  return [new URL(name, `file:///${from}`).pathname.slice(1)];
}

function isOfPackage(name: string, wanted: string): boolean {
  return wanted.endsWith('/') ? name.startsWith(wanted) : name === wanted || name.startsWith(`${wanted}/`);
}

/**
 * The text with comments, or comments and the insides of strings, replaced by blanks. Template literals stay: what stands in their `${}` is
 * code. A regular expression that holds a quote can hide the rest of its line, not more.
 */
function blankOut(text: string, what: 'comments' | 'comments and strings'): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g, (token) => {
    const isComment = token.startsWith('/');
    return isComment || what === 'comments and strings' ? token.replace(/[^\n]/g, ' ') : token;
  });
}
