/**
 * Describes the module boundaries as data, and has a pure function that finds violations. `test/architecture.test.ts`
 * runs it on all source files, and CONTRIBUTING.md shows the same tables. If you change a table, add a record to
 * docs/decisions.
 */

import { mayUseSharedPool } from './shared-pool.ts';

/** A source file. `path` is relative to the root of the repository and uses `/`. */
export interface SourceFile {
  path: string;
  text: string;
}

const DATA_MODULES = ['people', 'keys', 'projects', 'ceilings', 'journal', 'usage', 'videos'];
const FOUNDATION = ['db', 'core', 'observability'];
const WORKFLOW_CONTRACT = 'workflows/contract.ts';
/**
 * These sentences are used in workflows, and also where workflows are started. This file can't import anything, and
 * neither can the contract.
 */
const WORKFLOW_NOTES = 'workflows/notes.ts';
const WORKFLOW_INDEX = 'workflows/index.ts';

/** `app` can't import these modules, because they start what `app` assembles. */
export const ABOVE_APP: readonly string[] = ['main', 'service', 'codec-server', 'embedder'];

/**
 * The modules that each module may import, including types. A module is a folder of `src`, a file directly in `src`, or
 * `workflows` or `activities`. An entry can also be the path of a single file.
 */
export const DIRECTIONS: Record<string, readonly string[] | 'everything'> = {
  main: ['service', 'app', 'cli', 'codec-server', 'config', 'core', 'demo-vendor', 'embedder'],
  service: ['app', 'cli', 'config', 'db', 'demo-vendor', 'embedder', 'core', 'observability'],
  app: 'everything',
  cli: ['config', 'core', 'temporal', 'observability'],
  'codec-server': ['config', 'core', 'temporal', 'observability', 'src/http/cookies.ts'],
  console: [
    'http',
    'people',
    'pipeline',
    'routing',
    'keys',
    'projects',
    'ceilings',
    'usage',
    'memory',
    'temporal',
    'guardrails',
    'dialects',
    'failover',
    ...FOUNDATION,
  ],
  mcp: ['http', 'people', 'keys', 'projects', 'ceilings', 'usage', 'memory', ...FOUNDATION],
  http: [
    'people',
    'pipeline',
    'routing',
    'keys',
    'projects',
    'ceilings',
    'usage',
    'memory',
    'temporal',
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
    'temporal',
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
    WORKFLOW_CONTRACT,
  ],
  routing: ['vendors', 'projects', 'failover', 'dialects', 'db', 'core'],
  ...Object.fromEntries(DATA_MODULES.map((module) => [module, ['dialects', 'guardrails', ...FOUNDATION]])),
  memory: ['dialects', 'guardrails', ...FOUNDATION, WORKFLOW_CONTRACT],
  vendors: ['dialects', 'core'],
  temporal: [...FOUNDATION, WORKFLOW_CONTRACT, WORKFLOW_NOTES],
  config: ['core'],
  embedder: ['core', 'observability'],
  db: ['core', 'observability'],
  dialects: ['core'],
  guardrails: ['core'],
  failover: ['core'],
  core: [],
  observability: ['core'],
  workflows: [],
  'demo-vendor': [],
};

/**
 * Lists folders that are divided into submodules, and which siblings each submodule may import. There can't be cycles.
 * Files directly in the folder may import all of its submodules.
 */
export const SUBMODULES: Record<string, Record<string, readonly string[]>> = {
  'src/core': { json: [] },
  'src/memory': {
    text: [],
    triggers: [],
    records: ['text', 'triggers'],
    items: ['text', 'triggers', 'records'],
    conversations: ['text', 'triggers', 'records'],
    search: ['text', 'triggers', 'records', 'items', 'conversations'],
    recall: ['text', 'triggers', 'records', 'items', 'conversations'],
    indexing: ['text', 'triggers', 'records', 'items', 'conversations'],
    erasure: ['text', 'triggers', 'records', 'items', 'conversations'],
    learning: ['text', 'triggers', 'records', 'items', 'conversations'],
    portability: ['text', 'triggers', 'records', 'items', 'conversations', 'erasure'],
  },
  'src/dialects': {
    contract: [],
    json: ['contract'],
    chat: ['contract', 'json'],
    messages: ['contract', 'json'],
    passthrough: ['contract', 'json'],
    prompt: ['contract', 'json'],
    media: ['contract', 'json'],
    routes: ['contract', 'json', 'chat', 'messages', 'passthrough', 'prompt', 'media'],
    translate: ['contract', 'json', 'chat', 'messages', 'passthrough', 'prompt', 'media'],
  },
  'src/pipeline': {
    cache: [],
    call: ['cache'],
    media: ['cache', 'call'],
    video: ['cache', 'call', 'media'],
    internal: ['cache', 'call'],
  },
  'src/console': {
    frame: [],
    'sign-in': ['frame'],
    account: ['frame'],
    overview: ['frame'],
    deployment: ['frame'],
    explore: ['frame'],
    calls: ['frame'],
    find: ['frame'],
    playground: ['frame'],
    keys: ['frame'],
    applications: ['frame'],
    routing: ['frame'],
    prices: ['frame'],
    rules: ['frame'],
    members: ['frame'],
    audit: ['frame'],
    memory: ['frame'],
    conversations: ['frame'],
    'end-users': ['frame'],
    batches: ['frame'],
    settings: ['frame'],
    erasure: ['frame'],
    'key-holder': ['frame'],
  },
  'src/temporal': {
    payloads: [],
    connection: [],
    worker: ['payloads', 'connection'],
    outbox: [],
    client: ['payloads', 'connection', 'worker', 'outbox'],
    'dev-server': [],
  },
  'src/http/openapi': {
    schemas: [],
    contract: ['schemas'],
  },
};

/**
 * A package or global that only some files may use. In `packages`, a trailing `/` stands for a whole scope. Type
 * imports count, too.
 */
export interface RestrictedImport {
  name: string;
  packages?: readonly string[];
  pattern?: RegExp;
  /** Files, or folders with a trailing `/`. */
  allowed: readonly string[];
}

export const RESTRICTED_IMPORTS: readonly RestrictedImport[] = [
  // `src/vendors/identity/` uses the libraries of the clouds, which read the environment on their own.
  { name: 'process.env', pattern: /\bprocess\s*\.\s*env\b/, allowed: ['src/config/', 'src/main.ts', 'src/vendors/identity/'] },
  {
    name: 'process.argv',
    pattern: /\bprocess\s*\.\s*argv\b/,
    allowed: ['src/config/', 'src/main.ts', 'src/embedder/packed/unpack-model.ts'],
  },
  { name: 'process.exit', pattern: /\bprocess\s*\.\s*exit\b/, allowed: ['src/config/', 'src/main.ts'] },
  { name: 'Date.now', pattern: /\bDate\s*\.\s*now\b/, allowed: ['src/core/time.ts', 'workflows/'] },
  // Use `parseJson`, which avoids a bug of V8. The embedder only parses the files of its own model, and the demo vendor
  // must not import anything.
  { name: 'JSON.parse', pattern: /\bJSON\s*\.\s*parse\b/, allowed: ['src/core/json/', 'src/embedder/model.ts', 'src/demo-vendor/'] },
  { name: 'database.transaction', pattern: /\bdatabase\s*\.\s*transaction\b/, allowed: mayUseSharedPool },
  {
    name: 'lockProject, lockConversations and lockMemories',
    pattern: /\block(?:Project|Conversations|Memories)\b/,
    allowed: ['src/db/locks.ts', 'src/journal/batch-store.ts', 'src/memory/'],
  },
  { name: 'node:cluster', packages: ['node:cluster'], allowed: ['src/service/'] },
  {
    name: 'undici',
    packages: ['undici'],
    allowed: ['http-client', 'http-exchange', 'transport-errors', 'connector'].map((name) => `src/vendors/${name}.ts`),
  },
  { name: 'pg', packages: ['pg', '@electric-sql/'], allowed: ['src/db/'] },
  { name: '@prometheus-io/client', packages: ['@prometheus-io/client'], allowed: ['src/observability/metrics/'] },
  { name: 'express', packages: ['express'], allowed: ['src/http/', 'src/console/frame/', 'src/mcp/'] },
  {
    name: 'Temporal client and worker',
    packages: ['@temporalio/client', '@temporalio/worker'],
    allowed: [
      'src/temporal/client/temporal.ts',
      'src/temporal/connection/temporal-connection.ts',
      'src/temporal/worker/temporal-worker.ts',
    ],
  },
  { name: '@temporalio/workflow', packages: ['@temporalio/workflow'], allowed: ['workflows/'] },
  {
    name: 'OpenTelemetry',
    packages: ['@opentelemetry/'],
    allowed: ['src/observability/', 'src/http/trace-requests.ts', 'src/temporal/outbox/outbox-rows.ts'],
  },
  { name: 'd3-force', packages: ['d3-force'], allowed: ['src/console/memory/'] },
  { name: '@temporalio/activity', packages: ['@temporalio/activity'], allowed: ['activities/', 'src/temporal/worker/'] },
];

const MAX_LINES = 400;
const BANNED_NAMES = /(^|[/.-])(utils?|helpers?)([/.-]|$)|\/types(\/|$)/;
const SOURCE_ROOTS = /^(src|workflows|activities)\//;

/**
 * Returns one line per violation, with the file and the rule. Only checks files in `src`, `workflows` and `activities`.
 */
export function findViolations(files: readonly SourceFile[]): string[] {
  const sources = files
    .filter(({ path }) => SOURCE_ROOTS.test(path) && path.endsWith('.ts'))
    .map((file) => ({ ...file, imports: readImports(file.text) }));
  const importsByFile = new Map(sources.map((file) => [file.path, file.imports.flatMap((name) => resolveImport(file.path, name))]));
  return [
    ...[...importsByFile].flatMap(([path, targets]) => targets.flatMap((target) => checkImport(path, target))),
    ...findCycles(importsByFile),
    ...sources.flatMap((file) => checkRestrictedImports(file)),
    ...sources.flatMap((file) => checkWorkflowImports(file)),
    ...sources.flatMap((file) => checkFile(file)),
  ];
}

/** Returns the module specifiers that a file imports or re-exports, including types and `import()`. */
export function readImports(text: string): string[] {
  const code = blankOut(text, 'comments');
  const statement = /(?:^|[;}\n])\s*(?:import|export)\b[^;'"`()]*?\bfrom\s*(['"])([^'"]+)\1/g;
  const sideEffect = /(?:^|[;}\n])\s*import\s*(['"])([^'"]+)\1/g;
  const dynamic = /\b(?:import|require)\s*\(\s*(['"`])([^'"`]+)\1/g;
  return [statement, sideEffect, dynamic].flatMap((pattern) => [...code.matchAll(pattern)].map((found) => found[2] ?? ''));
}

/** Returns the module that a path belongs to. Null if it's not in `src`, `workflows` or `activities`. */
function moduleOf(path: string): string | null {
  const [top, second, ...deeper] = path.split('/');
  if (top === 'workflows' || top === 'activities') return top;
  if (top !== 'src' || second === undefined) return null;
  return deeper.length === 0 ? second.replace(/\.ts$/, '') : second;
}

function checkImport(from: string, to: string): string[] {
  const [module, target] = [moduleOf(from), moduleOf(to)];
  if (module === null) return [];
  if (module === target) return checkSubmodule(from, to);
  const allowed = DIRECTIONS[module];
  if (allowed === undefined) return [`${from}: no module "${module}" in the direction table`];
  if (target === null) return [`${from}: imports ${to}, which is outside the source roots`];
  const isAllowed = allowed === 'everything' ? !ABOVE_APP.includes(target) : allowed.includes(target) || allowed.includes(to);
  if (isAllowed) return [];
  return [`${from}: ${module} may not import ${target} (${to})`];
}

/**
 * A submodule may import itself and the submodules that are listed for it. Files directly in the divided folder may
 * import all of them.
 */
function checkSubmodule(from: string, to: string): string[] {
  for (const [folder, submodules] of Object.entries(SUBMODULES)) {
    if (!from.startsWith(`${folder}/`) || !to.startsWith(`${folder}/`)) continue;
    const [submodule, target] = [from, to].map(
      (path) =>
        path
          .slice(folder.length + 1)
          .split('/')
          .slice(0, -1)[0],
    );
    if (submodule === undefined || submodule === target) continue;
    const allowed = submodules[submodule];
    if (allowed === undefined) return [`${from}: no submodule "${submodule}" of ${folder} in the submodule table`];
    if (target === undefined || !allowed.includes(target)) return [`${from}: ${folder}/${submodule} may not import ${to}`];
  }
  return [];
}

function checkRestrictedImports({ path, text, imports }: SourceFile & { imports: string[] }): string[] {
  const code = blankOut(text, 'comments and strings');
  const uses = ({ packages, pattern }: RestrictedImport) =>
    pattern?.test(code) === true || imports.some((name) => packages?.some((wanted) => isOfPackage(name, wanted)));
  const isAllowed = ({ allowed }: RestrictedImport) =>
    allowed.some((place) => (place.endsWith('/') ? path.startsWith(place) : path === place));
  return RESTRICTED_IMPORTS.filter((restricted) => uses(restricted) && !isAllowed(restricted)).map(
    (restricted) => `${path}: ${restricted.name} may be used only in ${restricted.allowed.join(', ')}`,
  );
}

/**
 * Workflows run in Temporal's sandbox. They can only import its package, and the files that workflows have in common.
 */
function checkWorkflowImports({ path, imports }: SourceFile & { imports: string[] }): string[] {
  if (moduleOf(path) !== 'workflows') return [];
  const allowed = allowedInWorkflow(path);
  const wrong = imports.filter(
    (name) => !allowed.test(name) && !resolveImport(path, name).some((target) => moduleOf(target) !== 'workflows'),
  );
  return wrong.map((name) => `${path}: a workflow may import only @temporalio/workflow and the files that workflows share, not ${name}`);
}

function allowedInWorkflow(path: string): RegExp {
  if (path === WORKFLOW_CONTRACT || path === WORKFLOW_NOTES) return /^(?!)/;
  // This file lists all workflows for the worker's bundle, so it has to import them.
  if (path === WORKFLOW_INDEX) return /^\.\/[^/]+\.ts$/;
  return /^(@temporalio\/workflow|\.\/(batch-status|contract|notes|poll-until|retries|run-status)\.ts)$/;
}

function checkFile({ path, text }: SourceFile): string[] {
  const lines = text.replace(/\n$/, '').split('\n').length;
  return [
    ...(lines > MAX_LINES ? [`${path}: ${lines} lines, more than ${MAX_LINES}`] : []),
    ...(BANNED_NAMES.test(path.replace(/\.ts$/, '')) ? [`${path}: a file may not be called utils, types or helpers`] : []),
  ];
}

/** Returns each import cycle once, starting with its first file in alphabetical order. */
function findCycles(importsByFile: ReadonlyMap<string, readonly string[]>): string[] {
  const found = new Set<string>();
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]) => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      found.add(describeCycle(trail.slice(start)));
    } else if (!done.has(path)) {
      for (const target of importsByFile.get(path) ?? []) visit(target, [...trail, path]);
      done.add(path);
    }
  };
  for (const path of importsByFile.keys()) visit(path, []);
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
 * Replaces comments, and optionally the contents of strings, with blanks. Template literals are kept, because there's
 * code in their `${}`. If a regular expression contains a quote, we may miss the rest of its line, but nothing else.
 */
function blankOut(text: string, what: 'comments' | 'comments and strings'): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/g, (token) => {
    const isComment = token.startsWith('/');
    return isComment || what === 'comments and strings' ? token.replace(/[^\n]/g, ' ') : token;
  });
}
