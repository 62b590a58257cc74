/**
 * Parses and validates the gateway's environment variables, and reports all errors at once. Empty variables count as
 * absent.
 */

import { trimEnd } from '../core/trim.ts';
import type { Config, LogFormat, LogLevel, TemporalConfig, TemporalTls } from './config.ts';
import { adminTokensMessage, adminTokensPattern } from './file-schema.ts';
import { parseTracing } from './tracing-settings.ts';
import type { Command, VariableName } from './variables.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export type EnvironmentSettings = Pick<Config, 'server' | 'temporal' | 'tracing' | 'adminTokens' | 'journalSync'> & {
  readonly localEmbedder: { readonly mode: 'auto' | 'on' | 'off'; readonly folder: string | null };
};

const logLevels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];
const logFormats: readonly LogFormat[] = ['auto', 'json', 'text'];

/**
 * Returns the settings and all errors. Invalid variables get their defaults. `hasBadFile` tells whether a variable's
 * value comes from a secret file with an error, which has already been reported. Such a variable isn't reported as
 * missing.
 */
export function parseEnvironment(
  env: Environment,
  command: Command = 'start',
  hasBadFile: (name: VariableName) => boolean = () => false,
): { settings: EnvironmentSettings; errors: string[] } {
  const errors: string[] = [];
  const getText = (name: VariableName): string | null => env[name]?.trim() || null;
  const getInteger = (name: VariableName, fallback: number, from: number, to: number): number => {
    const input = getText(name);
    const value = input === null ? fallback : /^\d+$/.test(input) ? Number(input) : Number.NaN;
    if (value >= from && value <= to) return value;
    errors.push(`${name}: must be a whole number from ${from} to ${to}`);
    return fallback;
  };
  const getChoice = <Choice extends string>(name: VariableName, fallback: Choice, choices: readonly Choice[]): Choice => {
    const input = getText(name)?.toLowerCase() ?? fallback;
    const choice = choices.find((candidate) => candidate === input);
    if (choice === undefined) errors.push(`${name}: must be one of ${choices.join(', ')}`);
    return choice ?? fallback;
  };

  const databaseUrl = getText('DATABASE_URL');
  if (databaseUrl !== null && !isPostgresUrl(databaseUrl))
    errors.push('DATABASE_URL: must be an address like postgres://user:password@host:5432/database');
  const apiProcesses = getText('GATEWAY_API_PROCESSES');
  const workers = getText('GATEWAY_WORKERS');
  if (apiProcesses !== null && workers !== null && apiProcesses !== workers)
    errors.push('GATEWAY_API_PROCESSES, GATEWAY_WORKERS: set only GATEWAY_API_PROCESSES, because GATEWAY_WORKERS is its old name');
  const processesName = apiProcesses === null && workers !== null ? 'GATEWAY_WORKERS' : 'GATEWAY_API_PROCESSES';
  const processes = getInteger(processesName, 1, 1, 256);
  const isEmbedded = databaseUrl === null && !hasBadFile('DATABASE_URL');
  if (processes > 1 && isEmbedded && command === 'start') {
    errors.push(`${processesName}: more than 1 requires DATABASE_URL, because the embedded database only supports one process`);
  }
  if (isEmbedded && (command === 'serve' || command === 'worker' || command === 'migrate')) {
    errors.push(
      `DATABASE_URL: is required for gateway ${command}; to use the embedded database, run npm start, which runs the whole service in one process`,
    );
  }
  const adminTokens = getText('GATEWAY_ADMIN_TOKEN');
  if (adminTokens !== null && !adminTokensPattern.test(adminTokens)) errors.push(`GATEWAY_ADMIN_TOKEN: ${adminTokensMessage}`);
  const temporal = parseTemporal(getText, getChoice, errors);
  // Separate processes need a common Temporal server. With `dev`, each of them would start its own.
  if (temporal.mode === 'dev' && (command === 'serve' || command === 'worker')) {
    errors.push(`TEMPORAL_ADDRESS: is required for gateway ${command}; to run without durable work, set GATEWAY_TEMPORAL=off`);
  }
  const settings: EnvironmentSettings = {
    server: {
      host: getText('HOST') ?? '127.0.0.1',
      port: getInteger('PORT', 8080, 0, 65_535),
      dataDir: getText('GATEWAY_DATA_DIR') ?? '.gateway',
      databaseUrl,
      logLevel: getChoice('LOG_LEVEL', 'info', logLevels),
      logFormat: getChoice('LOG_FORMAT', 'auto', logFormats),
      apiProcesses: processes,
      bodyMemoryBytes: getInteger('GATEWAY_BODY_MEMORY_MIB', 512, 32, 1_048_576) * 1024 * 1024,
      // Only `serve` waits by default, to give readiness probes time to notice. A worker doesn't serve any calls.
      stopDelayMs: command === 'worker' ? 0 : getInteger('GATEWAY_STOP_DELAY_SECONDS', command === 'serve' ? 5 : 0, 0, 300) * 1_000,
      // The timeout of `start` is shorter, because it usually runs in a terminal, where people don't want to wait long
      // after pressing Ctrl-C.
      stopTimeoutMs: getInteger('GATEWAY_STOP_TIMEOUT_SECONDS', command === 'start' ? 10 : 600, 0, 3_600) * 1_000,
      metricsAddress: parseAddress('GATEWAY_METRICS_ADDRESS', getText, errors),
    },
    temporal,
    tracing: parseTracing(getText, errors),
    adminTokens: splitTokens(adminTokens ?? ''),
    localEmbedder: {
      mode: getChoice('GATEWAY_LOCAL_EMBEDDER', 'auto', ['auto', 'on', 'off']),
      folder: getText('GATEWAY_LOCAL_EMBEDDER_DIR'),
    },
    journalSync: getChoice('GATEWAY_JOURNAL_SYNC', 'off', ['on', 'off']) === 'on',
  };
  return { settings, errors };
}

export function splitTokens(text: string): string[] {
  return text.split(/\s+/).filter((token) => token !== '');
}

/** Parses a host and port. IPv6 addresses have to be in brackets. Returns null if the variable is absent or invalid. */
function parseAddress(
  name: VariableName,
  getText: (name: VariableName) => string | null,
  errors: string[],
): { host: string; port: number } | null {
  const input = getText(name);
  if (input === null) return null;
  const [, bracketed, plain, port] = /^(?:\[([0-9a-fA-F:]+)\]|([^\s:/[\]]+)):(\d{1,5})$/.exec(input) ?? [];
  const host = bracketed ?? plain;
  if (host !== undefined && Number(port) <= 65_535) return { host, port: Number(port) };
  errors.push(`${name}: must be host:port, such as 127.0.0.1:9464`);
  return null;
}

function parseTemporal(
  getText: (name: VariableName) => string | null,
  getChoice: (name: VariableName, fallback: 'on' | 'off', choices: readonly ('on' | 'off')[]) => 'on' | 'off',
  errors: string[],
): TemporalConfig {
  const address = getText('TEMPORAL_ADDRESS');
  if (address !== null && !/^(?:\[[0-9a-fA-F:]+\]|[^\s:/]+):\d{1,5}$/.test(address)) errors.push('TEMPORAL_ADDRESS: must be host:port');
  const mode = getChoice('GATEWAY_TEMPORAL', 'on', ['on', 'off']) === 'off' ? 'off' : address === null ? 'dev' : 'external';
  const uiUrl = getText('TEMPORAL_UI_URL');
  if (uiUrl !== null && !isWebUrl(uiUrl))
    errors.push('TEMPORAL_UI_URL: must be an address like https://temporal.example.com, without a query');
  const apiKey = getText('TEMPORAL_API_KEY');
  const files: TemporalTls = {
    serverName: getText('TEMPORAL_TLS_SERVER_NAME'),
    caFile: getText('TEMPORAL_TLS_SERVER_CA_CERT_PATH'),
    certificateFile: getText('TEMPORAL_TLS_CLIENT_CERT_PATH'),
    keyFile: getText('TEMPORAL_TLS_CLIENT_KEY_PATH'),
  };
  if ((files.certificateFile === null) !== (files.keyFile === null)) {
    errors.push('TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH: set either both or neither');
  }
  const getBoolean = (name: VariableName): boolean | null => {
    const setting = getText(name)?.toLowerCase() ?? null;
    if (setting === null) return null;
    if (!['true', 'false', '1', '0'].includes(setting)) errors.push(`${name}: must be true or false`);
    return setting === 'true' || setting === '1';
  };
  // API keys and certificates are never sent without TLS, so if there are any, TLS is on by default.
  const isTlsImplied = apiKey !== null || Object.values(files).some((file) => file !== null);
  const usesTls = getBoolean('TEMPORAL_TLS') ?? isTlsImplied;
  return {
    mode,
    address: mode === 'external' ? address : null,
    namespace: getText('TEMPORAL_NAMESPACE') ?? (mode === 'dev' ? null : 'default'),
    createNamespace: getBoolean('TEMPORAL_CREATE_NAMESPACE') ?? false,
    apiKey,
    tls: usesTls ? files : null,
    payloadKeys: parsePayloadKeys(getText('TEMPORAL_PAYLOAD_KEY'), errors),
    workerBuildId: getText('TEMPORAL_WORKER_BUILD_ID'),
    uiUrl: uiUrl === null || uiUrl === undefined ? null : trimEnd(uiUrl, '/'),
  };
}

/** Parses keys that are separated by commas. The keys are secret, so errors don't quote them. */
function parsePayloadKeys(input: string | null, errors: string[]): readonly string[] {
  const keys = input === null ? [] : input.split(',').map((key) => key.trim());
  const isKey = (key: string): boolean => /^[A-Za-z0-9+/]{43}=$/.test(key);
  if (keys.every(isKey)) return keys;
  errors.push('TEMPORAL_PAYLOAD_KEY: must be 32 random bytes in base64 (openssl rand -base64 32), or several of them separated by commas');
  return [];
}

function isWebUrl(text: string): boolean {
  return /^https?:\/\/[^?#@\s]+$/.test(text) && URL.canParse(text);
}

function isPostgresUrl(text: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(text) && URL.canParse(text);
}
