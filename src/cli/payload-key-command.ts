/**
 * Implements `gateway payload-key check` and `gateway payload-key rotate`, which find out which payload keys the runs
 * in Temporal still need. During a rotation, they print the next value of TEMPORAL_PAYLOAD_KEY. They connect to
 * Temporal with the service's settings and don't change anything there. Only `rotate` ever prints keys, and only to
 * standard output.
 */
import { randomBytes } from 'node:crypto';
import { ConfigError } from '../config/config.ts';
import { type Environment, type EnvironmentSettings, parseEnvironment } from '../config/environment.ts';
import { parseOptions } from '../config/parse-options.ts';
import { withSecretFiles } from '../config/secret-files.ts';
import { readTemporalConnection } from '../config/temporal-settings.ts';
import { errorSummary } from '../core/error-messages.ts';
import { type PayloadKeyUsage, readPayloadKeyUsage } from '../temporal/client/payload-key-usage.ts';
import { readRecord } from '../temporal/dev-server/dev-server-files.ts';
import { keyFingerprint } from '../temporal/payloads/encryption.ts';
import { CommandError, type CommandOutput } from './command.ts';
import { describeKeyUsage, formatKeyUsage } from './format-key-usage.ts';

const usage = `Usage:
  gateway payload-key check [--json]      show the payload keys that open runs and schedules need
  gateway payload-key rotate              print TEMPORAL_PAYLOAD_KEY with a new key at its end
  gateway payload-key rotate --promote    print TEMPORAL_PAYLOAD_KEY with the last key first
  gateway payload-key rotate --remove     print TEMPORAL_PAYLOAD_KEY with only the first key, unless open runs need another one

check exits with 1 if TEMPORAL_PAYLOAD_KEY lacks a key that is needed. rotate prints the next value to standard output, but changes nothing.
Set each value in all processes and restart them before the next step: new key, --promote, --remove. With TEMPORAL_PAYLOAD_KEY_FILE, write
it into the file and send SIGHUP to all processes.

Both commands use the settings of the service (TEMPORAL_PAYLOAD_KEY, TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and so on). Without TEMPORAL_ADDRESS,
they use the development server of the data directory.
`;

/** Returns the exit status. Throws ConfigError. */
export async function runPayloadKeyCommand(args: readonly string[], env: Environment, output: CommandOutput): Promise<number> {
  const { positionals, values } = readOptions(args);
  if (values.help === true) {
    output.write(usage);
    return 0;
  }
  const mistakes = findMistakes(positionals, values);
  const { settings, errors } = parseEnvironment(withSecretFiles(env, mistakes), 'payload-key');
  mistakes.push(...errors);
  if (mistakes.length > 0) throw new ConfigError(mistakes);
  try {
    return positionals[0] === 'check' ? await check(settings, values.json === true, output) : await rotate(settings, values, output);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    output.writeError(`gateway: ${error.message}\n`);
    return 1;
  }
}

type Options = ReturnType<typeof readOptions>['values'];

function readOptions(args: readonly string[]) {
  return parseOptions({
    args: [...args],
    allowPositionals: true,
    options: {
      promote: { type: 'boolean' },
      remove: { type: 'boolean' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
}

function findMistakes([action, ...rest]: readonly string[], { promote, remove, json }: Options): string[] {
  const mistakes: string[] = [];
  if (action !== 'check' && action !== 'rotate')
    mistakes.push(
      `${action === undefined ? 'missing action' : `unknown action "${action}"`}; use gateway payload-key check or gateway payload-key rotate`,
    );
  if (rest.length > 0) mistakes.push(`unexpected argument "${rest[0]}"`);
  if (action === 'check' && (promote || remove)) mistakes.push('--promote and --remove are only allowed with rotate');
  if (action === 'rotate' && json) mistakes.push('--json is only allowed with check');
  if (promote && remove) mistakes.push('use either --promote or --remove, not both');
  return mistakes;
}

async function check(settings: EnvironmentSettings, asJson: boolean, output: CommandOutput): Promise<number> {
  const report = describeKeyUsage(await readUsage(settings), keyIdsOf(settings.temporal.payloadKeys));
  output.write(asJson ? `${JSON.stringify(report, null, 2)}\n` : formatKeyUsage(report));
  return report.keys.some(({ configured }) => !configured) ? 1 : 0;
}

const apply =
  'Set this value in all processes: restart them, or write it to the file that TEMPORAL_PAYLOAD_KEY_FILE names and send SIGHUP.';

async function rotate(settings: EnvironmentSettings, { promote, remove }: Options, output: CommandOutput): Promise<number> {
  const keys = settings.temporal.payloadKeys;
  const ids = keyIdsOf(keys);
  const print = (next: readonly string[], advice: string): number => {
    output.write(`TEMPORAL_PAYLOAD_KEY=${next.join(',')}\n`);
    output.writeError(`${advice}\n`);
    return 0;
  };
  if (!promote && !remove) {
    if (keys.length > 1)
      throw new CommandError(
        `TEMPORAL_PAYLOAD_KEY already has ${keys.length} keys; finish the current rotation first, with rotate --promote and rotate --remove`,
      );
    const key = randomBytes(32).toString('base64');
    const next = keys.length === 0 ? 'After that, it encrypts new payloads.' : 'Then run: gateway payload-key rotate --promote';
    return print([...keys, key], `Added the key ${keyIdsOf([key]).join()}. ${apply} ${next}`);
  }
  const [first = '', ...others] = keys;
  const last = others.at(-1);
  if (last === undefined) throw new CommandError('TEMPORAL_PAYLOAD_KEY has fewer than two keys; start with gateway payload-key rotate');
  if (promote) {
    const next = [last, first, ...others.slice(0, -1)];
    return print(
      next,
      `The key ${keyIdsOf([last]).join()} is now first and encrypts new payloads in place of ${ids[0]}. ${apply} Then run: gateway payload-key rotate --remove`,
    );
  }
  const report = describeKeyUsage(await readUsage(settings), ids);
  const needed = report.keys.filter(({ id, runs, schedules }) => id !== ids[0] && runs + schedules > 0);
  if (needed.length > 0) {
    output.writeError(formatKeyUsage(report));
    throw new CommandError(`cannot remove ${needed.map(({ id }) => id).join(', ')}: open runs or schedules still need it`);
  }
  return print(
    [first],
    `Removed ${ids.slice(1).join(', ')}. Closed runs whose payloads were encrypted with these keys can no longer be read or reset. ${apply}`,
  );
}

function keyIdsOf(keys: readonly string[]): string[] {
  return keys.map((key) => keyFingerprint(Buffer.from(key, 'base64')));
}

/** Throws CommandError if we can't read from Temporal. */
async function readUsage({ temporal, server }: EnvironmentSettings): Promise<PayloadKeyUsage> {
  if (temporal.mode === 'off') throw new CommandError('GATEWAY_TEMPORAL is off, so there are no workflow runs to check');
  const { address, namespace, tls, apiKey } = readTemporalConnection(temporal);
  const devServer = address === null ? await readRecord(server.dataDir) : null;
  if (address === null && devServer === null)
    throw new CommandError(
      `no Temporal server found: set TEMPORAL_ADDRESS, or run this command on the machine with the development server of ${server.dataDir}`,
    );
  const endpoint = devServer ?? { address: address ?? '', namespace };
  try {
    return await readPayloadKeyUsage({
      address: endpoint.address,
      namespace: endpoint.namespace,
      ...(tls !== undefined && { tls }),
      ...(apiKey !== undefined && { apiKey }),
    });
  } catch (error) {
    throw new CommandError(`cannot read from Temporal at ${endpoint.address}: ${errorSummary(error)}`, null, error);
  }
}
