/**
 * Implements `gateway check-config [command]`. It checks the environment and gateway.yaml just like `gateway
 * <command>`, but doesn't start anything. With `--online`, it also sends one or two free requests to each provider to
 * find out if the key and the address work. Otherwise, it doesn't use the network.
 */
import { resolve } from 'node:path';
import { type Config, ConfigError } from '../config/config.ts';
import type { Environment } from '../config/environment.ts';
import { loadConfig, readConfigSource } from '../config/load.ts';
import { parseOptions } from '../config/parse-options.ts';
import { readTemporalConnection } from '../config/temporal-settings.ts';
import type { CommandOutput } from './command.ts';
import { formatFacts, formatTable } from './table.ts';

const usage = `Usage:
  gateway check-config [start|serve|worker|migrate] [--online]

Validates the environment and gateway.yaml in the same way as the command that you name, but starts nothing. The default is serve if
DATABASE_URL is set, and otherwise start. If there are mistakes, it prints all of them and exits with 1. Otherwise it prints a summary and
warnings, and exits with 0. With --online, it also sends a free request to each provider, and explains what is wrong with a key or an address.
`;

const checkable = ['start', 'serve', 'worker', 'migrate'] as const;

export interface ProviderCheck {
  readonly provider: string;
  readonly works: boolean;
  /** Tells the operator how the vendor responded, in one sentence. */
  readonly message: string;
}

/**
 * Prints the summary or the help. Returns 1 if any provider doesn't work, otherwise 0. Throws a ConfigError that lists
 * all mistakes in the configuration.
 */
export async function checkConfig(
  args: readonly string[],
  env: Environment,
  { write, writeError }: CommandOutput,
  checkProviders: (config: Config) => Promise<readonly ProviderCheck[]>,
): Promise<number> {
  const { values, positionals } = parseOptions({
    args: [...args],
    allowPositionals: true,
    options: { online: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  });
  if (values.help === true) {
    write(usage);
    return 0;
  }
  const [name = env.DATABASE_URL?.trim() || env.DATABASE_URL_FILE?.trim() ? 'serve' : 'start', extra] = positionals;
  const command = checkable.find((candidate) => candidate === name);
  if (command === undefined || extra !== undefined)
    throw new ConfigError([`"${extra ?? name}" is not a command that gateway check-config can check; use one of ${checkable.join(', ')}`]);
  const source = readConfigSource(env, command);
  const config = loadConfig(source);
  // Throws if a certificate file can't be read.
  readTemporalConnection(config.temporal);
  write(
    `The configuration is valid for gateway ${command}.\n\n${formatFacts(summarize(config, source.fileText === null ? null : source.fileName))}`,
  );
  for (const warning of config.warnings) writeError(`warning: ${warning}\n`);
  if (!values.online) return 0;
  const checks = await checkProviders(config);
  const rows = checks.map(({ provider, works, message }) => [provider, works ? 'works' : 'fails', message]);
  write(`\n${formatTable(['PROVIDER', 'STATE', 'DETAILS'], rows)}`);
  return checks.every(({ works }) => works) ? 0 : 1;
}

function summarize(config: Config, file: string | null): [string, unknown][] {
  const { server, temporal, demo } = config;
  return [
    ['file', file],
    ['address', `${server.host}:${server.port}`],
    ['processes', server.apiProcesses],
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

/** Returns the host, port and database of a URL, without the user and the password. */
function nameOf(databaseUrl: string): string {
  const { host, pathname } = new URL(databaseUrl);
  return `${host}${pathname}`;
}
