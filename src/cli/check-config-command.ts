/**
 * Implements `gateway check-config [command]`, which validates the environment and gateway.yaml the way `gateway
 * <command>` would, but starts nothing. It doesn't connect to anything either, so it can't tell whether keys and
 * addresses work.
 */
import { resolve } from 'node:path';
import { type Config, ConfigError } from '../config/config.ts';
import type { Environment } from '../config/environment.ts';
import { loadConfig, readConfigSource } from '../config/load.ts';
import { parseOptions } from '../config/parse-options.ts';
import { readTemporalConnection } from '../config/temporal-settings.ts';
import type { CommandOutput } from './command.ts';
import { formatFacts } from './table.ts';

const usage = `Usage:
  gateway check-config [start|serve|worker|migrate]

Validates the environment and gateway.yaml as that command would, and starts nothing; without a command as serve where DATABASE_URL is set, else
as start. Prints every mistake and exits with 1, or a summary and warnings and exits with 0.
`;

const checkable = ['start', 'serve', 'worker', 'migrate'] as const;

/** Prints the summary or the help and returns 0. Throws a ConfigError that lists all mistakes. */
export function checkConfig(args: readonly string[], env: Environment, { write, writeError }: CommandOutput): number {
  const { values, positionals } = parseOptions({
    args: [...args],
    allowPositionals: true,
    options: { help: { type: 'boolean', short: 'h' } },
  });
  if (values.help === true) {
    write(usage);
    return 0;
  }
  const [name = env.DATABASE_URL?.trim() || env.DATABASE_URL_FILE?.trim() ? 'serve' : 'start', extra] = positionals;
  const command = checkable.find((candidate) => candidate === name);
  if (command === undefined || extra !== undefined)
    throw new ConfigError([`"${extra ?? name}": gateway check-config checks one of ${checkable.join(', ')}`]);
  const source = readConfigSource(env, command);
  const config = loadConfig(source);
  // Throws if a certificate file can't be read.
  readTemporalConnection(config.temporal);
  write(
    `The configuration is valid for gateway ${command}.\n\n${formatFacts(summarize(config, source.fileText === null ? null : source.fileName))}`,
  );
  for (const warning of config.warnings) writeError(`warning: ${warning}\n`);
  return 0;
}

function summarize(config: Config, file: string | null): [string, unknown][] {
  const { server, temporal, demo } = config;
  return [
    ['file', file],
    ['address', `${server.host}:${server.port}`],
    ['processes', server.workers],
    ['data directory', resolve(server.dataDir)],
    ['database', server.databaseUrl === null ? 'embedded' : nameOf(server.databaseUrl)],
    ['temporal', temporal.mode === 'external' ? `${temporal.address}, namespace ${temporal.namespace}` : temporalModes[temporal.mode]],
    ['admin token', config.adminTokens.length === 0 ? 'created at the first start' : 'configured'],
    ['sign-in', config.oidc === null ? 'passwords and links' : config.oidc.issuer],
    ['providers', demo ? 'demo vendor' : Object.keys(config.providers)],
    ['tiers', Object.keys(config.tiers)],
  ];
}

const temporalModes = { off: 'off', dev: 'development server' } as const;

/** Returns host, port and database of a URL, without user and password. */
function nameOf(databaseUrl: string): string {
  const { host, pathname } = new URL(databaseUrl);
  return `${host}${pathname}`;
}
