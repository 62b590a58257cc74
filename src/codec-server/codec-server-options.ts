/** Reads the options and settings of `gateway codec-server`, and reports all mistakes at once. */
import { findAdminTokens } from '../config/admin-token.ts';
import { ConfigError } from '../config/config.ts';
import { type Environment, parseEnvironment } from '../config/environment.ts';
import { parseOptions } from '../config/parse-options.ts';
import { withSecretFiles } from '../config/secret-files.ts';
import { isLoopback } from '../core/internal-hosts.ts';
import type { LogFormat, LogLevel } from '../observability/logger.ts';

export const codecServerUsage = `Usage:
  gateway codec-server --ui-origin <origin>... [--public-url <origin>] [--host <host>] [--port <n>]

Decodes payloads for the Temporal UI and the Temporal CLI, for people who have the admin token. See docs/architecture/durable-work.md#codec-server.

  --ui-origin <origin>   origin of a Temporal UI, for example http://localhost:8233; may be repeated
  --public-url <origin>  https origin at which browsers reach this server; required unless the UI runs on this machine
  --host <host>          default: 127.0.0.1
  --port <n>             default: 8234
  -h, --help             print this help

It reads TEMPORAL_PAYLOAD_KEY, and takes the admin token from GATEWAY_ADMIN_TOKEN, gateway.yaml or <data directory>/admin-token, in this order.
`;

export interface CodecServerSettings {
  readonly host: string;
  readonly port: number;
  readonly uiOrigins: readonly string[];
  /**
   * The origin that browsers use to reach the server. If this is null, they use the loopback addresses of this machine.
   */
  readonly publicUrl: string | null;
  readonly adminTokens: readonly string[];
  readonly payloadKeys: readonly Uint8Array[];
}

/** Returns null if the user only asked for help. Throws ConfigError. */
export async function readCodecServerSettings(
  args: readonly string[],
  variables: Environment,
): Promise<(CodecServerSettings & { readonly logLevel: LogLevel; readonly logFormat: LogFormat }) | null> {
  const values = readOptions(args);
  if (values.help === true) return null;
  const secretErrors: string[] = [];
  const env = withSecretFiles(variables, secretErrors);
  const { settings, errors } = parseEnvironment(env, 'codec-server');
  errors.push(...secretErrors);
  const port = /^\d{1,5}$/.test(values.port) ? Number(values.port) : Number.NaN;
  if (!(port <= 65_535)) errors.push('--port: must be a whole number from 0 to 65535');
  const uiOrigins = (values['ui-origin'] ?? []).flatMap((text) => {
    const origin = parseOrigin(text);
    if (origin === null) errors.push(`--ui-origin: "${text}" is not an origin like http://localhost:8233`);
    return origin ?? [];
  });
  if (values['ui-origin'] === undefined)
    errors.push('--ui-origin: is required; pass the origin of the Temporal UI, for example --ui-origin http://localhost:8233');
  const publicUrl = checkPublicUrl(values['public-url'], uiOrigins, errors);
  const { payloadKeys } = settings.temporal;
  // Checks whether a variable is set, even if its value is malformed or its file can't be read. We've already reported
  // those errors, so we shouldn't complain that the variable is missing too.
  const isNamed = (name: 'TEMPORAL_PAYLOAD_KEY' | 'GATEWAY_ADMIN_TOKEN'): boolean => Boolean((env[name] || env[`${name}_FILE`])?.trim());
  if (!isNamed('TEMPORAL_PAYLOAD_KEY')) errors.push('TEMPORAL_PAYLOAD_KEY: is required for gateway codec-server');
  const adminTokens = await findAdminTokens(env, settings);
  if (adminTokens.length === 0 && !isNamed('GATEWAY_ADMIN_TOKEN'))
    errors.push('GATEWAY_ADMIN_TOKEN: is required for gateway codec-server, because people sign in to it with the admin token');
  if (errors.length > 0) throw new ConfigError(errors);
  return {
    host: values.host,
    port,
    uiOrigins,
    publicUrl,
    adminTokens,
    payloadKeys: payloadKeys.map((key) => Buffer.from(key, 'base64')),
    logLevel: settings.server.logLevel,
    logFormat: settings.server.logFormat,
  };
}

function readOptions(args: readonly string[]) {
  return parseOptions({
    args: [...args],
    options: {
      'ui-origin': { type: 'string', multiple: true },
      'public-url': { type: 'string' },
      host: { type: 'string', default: '127.0.0.1' },
      port: { type: 'string', default: '8234' },
      help: { type: 'boolean', short: 'h' },
    },
  }).values;
}

function checkPublicUrl(text: string | undefined, uiOrigins: readonly string[], errors: string[]): string | null {
  if (text === undefined) {
    const remote = uiOrigins.find((origin) => !isLoopback(new URL(origin).hostname));
    if (remote !== undefined)
      errors.push(
        `--public-url: is required, because the Temporal UI at ${remote} is used from other machines; pass the https origin of this server`,
      );
    return null;
  }
  const origin = parseOrigin(text);
  // Without TLS, the token could be read on the network, and browsers wouldn't send the cookie with requests from the
  // UI.
  if (origin === null || (!origin.startsWith('https:') && !isLoopback(new URL(origin).hostname)))
    errors.push('--public-url: must be an origin like https://codec.example.com; http is accepted on localhost only');
  return origin;
}

/** Converts an origin to the form that browsers send. Returns null if it contains a path or isn't http(s). */
function parseOrigin(text: string): string | null {
  const { protocol, origin, href } = URL.parse(text) ?? {};
  return (protocol === 'http:' || protocol === 'https:') && href === `${origin}/` && origin !== undefined ? origin : null;
}
