/**
 * Reads the commands in README.md, CONTRIBUTING.md and docs/. These are blocks tagged `sh`, and calls of `gateway` in
 * inline code.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkConfig } from '../../src/cli/check-config-command.ts';
import { isCommandGroup, runCommand } from '../../src/cli/commands.ts';
import { runPayloadKeyCommand } from '../../src/cli/payload-key-command.ts';
import { runVendorsCommand } from '../../src/cli/vendors-command.ts';
import { readCodecServerSettings } from '../../src/codec-server/codec-server-options.ts';
import { ConfigError } from '../../src/config/config.ts';
import { parseOptions } from '../../src/config/parse-options.ts';
import { root } from './gateway-process.ts';

export interface CommandPage {
  readonly path: string;
  readonly text: string;
}

export interface CommandBlock {
  /** The position of the first command, as `path:line`. */
  readonly at: string;
  readonly code: string;
  /** The reason why tests don't run it, which comes from the comment `<!-- not run: ... -->` before the block. */
  readonly notRun: string | null;
}

/**
 * Returns the pages with commands for users. A decision may quote commands that have changed since, so decisions aren't
 * included.
 */
export function readCommandPages(): CommandPage[] {
  const inDocs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => `docs/${name.replaceAll('\\', '/')}`);
  const paths = ['README.md', 'CONTRIBUTING.md', ...inDocs.filter((path) => /^(?!docs\/decisions\/).*\.md$/.test(path))];
  return paths.map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

/** Tests run all command blocks on these pages, except for blocks with a comment. */
export const pagesThatRun = ['README.md', 'docs/quick-start.md', 'docs/memory.md'];

const fence = /^(?:<!-- not run: (.+) -->\n)?```(.*)\n([\s\S]*?)^```$/gm;

export function readCommandBlocks({ path, text }: CommandPage): CommandBlock[] {
  return [...text.matchAll(fence)].flatMap(({ 0: whole, 1: notRun = null, 2: tag, 3: code = '', index }) =>
    tag === 'sh' ? [{ at: `${path}:${lineAt(text, index + whole.indexOf('```')) + 1}`, code, notRun }] : [],
  );
}

const program = /^(?:npm|npx|node|gateway|curl|docker|kubectl|git|psql|pg_\w+|promtool|openssl|export|kill)\s/m;

/**
 * Finds blocks that look like commands, but that our tests neither run nor check. Either the block isn't tagged `sh`,
 * or it's on a page whose blocks aren't run and there's no comment with the reason.
 */
export function findUnmarkedCommands(page: CommandPage): string[] {
  const untagged = [...page.text.matchAll(fence)].flatMap(({ 2: tag = '', 3: code = '', index }) =>
    ['', 'bash', 'shell', 'console'].includes(tag) && program.test(code)
      ? [`${page.path}:${lineAt(page.text, index)}: tag a block of commands with sh`]
      : [],
  );
  const blocks = pagesThatRun.includes(page.path) ? [] : readCommandBlocks(page);
  const unexplained = blocks.filter(({ notRun }) => notRun === null);
  return [...untagged, ...unexplained.map(({ at }) => `${at}: say before the block why it is not run: <!-- not run: ... -->`)];
}

/**
 * Returns `path:line: problem` for unknown npm scripts and unknown `gateway` commands and options. This checks inline
 * code, and blocks that no test runs.
 */
export async function findCommandMistakes(page: CommandPage): Promise<string[]> {
  const mistakes: string[] = [];
  for (const { at, code, notRun } of readCommandBlocks(page)) {
    if (notRun === null) continue;
    for (const line of code.replaceAll('\\\n', ' ').split('\n')) {
      const command = line.replace(/\s+# .*$/, '');
      const mistake =
        checkScript(command) ?? (await checkGateway(/(?:^gateway|npx gateway|src\/main\.ts) +([^|;&>]+)/.exec(command)?.[1], false));
      if (mistake !== null) mistakes.push(`${at}: ${command.trim()}: ${mistake}`);
    }
  }
  const prose = page.text.replace(fence, (whole) => whole.replace(/[^\n]/g, ''));
  for (const { 1: command, index } of prose.matchAll(/`(?:npx )?gateway ([a-z][^`|]*)/g)) {
    const mistake = await checkGateway(command, true);
    if (mistake !== null) mistakes.push(`${page.path}:${lineAt(prose, index)}: gateway ${command}: ${mistake}`);
  }
  return mistakes;
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split('\n').length;
}

const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> };

function checkScript(command: string): string | null {
  const name = /^npm (?:run )?(?!ci\b|install\b|sbom\b|run\b)([\w:-]+)/.exec(command)?.[1];
  return name === undefined || Object.hasOwn(scripts, name) ? null : `package.json has no script ${name}`;
}

const placeholders = /<[^>]*>|\[[^\]]*\]|\.{3}/g;

/**
 * Finds out what's wrong with a command line, or returns null if it's fine. In prose, the arguments may be left out.
 */
async function checkGateway(text: string | undefined, isProse: boolean): Promise<string | null> {
  if (text === undefined) return null;
  const argv = (text.replace(placeholders, (found) => (found.startsWith('<') ? '1' : '')).match(/'[^']*'|"[^"]*"|\S+/g) ?? []).map((part) =>
    part.replace(/^(['"])(.*)\1$/, '$2'),
  );
  const [command = '', ...rest] = argv;
  try {
    switch (command) {
      case 'start':
      case 'serve':
      case 'worker':
      case 'migrate':
        parseOptions({ args: rest, options: {} });
        return null;
      case 'fetch-embedder':
        parseOptions({ args: rest, options: { to: { type: 'string' } } });
        return null;
      case 'demo-vendor':
        parseOptions({ args: rest, options: { port: { type: 'string' }, host: { type: 'string' } } });
        return null;
      case 'check-config':
        await checkConfig([...rest, '--help'], {}, silent, async () => []);
        return null;
      case 'vendors':
        await runVendorsCommand([...rest, '--help'], {}, silent);
        return null;
      case 'payload-key':
        await runPayloadKeyCommand([...rest, '--help'], {}, silent);
        return null;
      case 'codec-server':
        await readCodecServerSettings([...rest, '--help'], {});
        return null;
      default:
        return isProse && rest.length === 0 && isCommandGroup(command) ? null : await tryCommand(argv, isProse);
    }
  } catch (error) {
    if (error instanceof ConfigError) return error.errors.map((text) => text.split('.', 1)[0]).join('; ');
    throw error;
  }
}

const silent = { write: () => undefined, writeError: () => undefined };

/**
 * Runs the command with a port that nothing listens on. If the command is valid, it fails because it can't find a
 * gateway.
 */
async function tryCommand(argv: readonly string[], isProse: boolean): Promise<string | null> {
  const errors: string[] = [];
  const environment = { GATEWAY_ADMIN_TOKEN: 'a-token-of-the-documentation' };
  await runCommand([...argv, '--url', 'http://127.0.0.1:1'], environment, { ...silent, writeError: (text) => errors.push(text) });
  const message = errors.join('');
  const isValid =
    /^gateway: no gateway responds|cannot (?:be )?read/.test(message) ||
    (isProse && /^gateway: (?:no \w+: |nothing to change: |\w+ must not be empty|missing required)/.test(message));
  return isValid ? null : (message.split('\n', 1)[0] ?? '');
}
