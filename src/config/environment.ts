/** Reads the environment: every variable of the gateway, checked, all mistakes at once. An empty variable counts as absent. */
import type { LogLevel, ServerConfig, TemporalConfig, TemporalTls } from './config.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface EnvironmentSettings {
  readonly server: ServerConfig;
  readonly temporal: TemporalConfig;
  readonly adminToken: string | null;
  readonly journalSync: boolean;
}

/** The commands that read the configuration. */
export type Command = 'start' | 'serve' | 'worker' | 'migrate';

const logLevels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];

/** The settings, with defaults where a variable is wrong, and what is wrong. */
export function readEnvironment(env: Environment, command: Command = 'start'): { settings: EnvironmentSettings; faults: string[] } {
  const faults: string[] = [];
  const text = (name: string): string | null => env[name]?.trim() || null;
  const whole = (name: string, fallback: number, from: number, to: number): number => {
    const given = text(name);
    const value = given === null ? fallback : /^\d+$/.test(given) ? Number(given) : Number.NaN;
    if (value >= from && value <= to) return value;
    faults.push(`${name}: must be a whole number from ${from} to ${to}`);
    return fallback;
  };
  const oneOf = <Word extends string>(name: string, fallback: Word, words: readonly Word[]): Word => {
    const given = text(name)?.toLowerCase() ?? fallback;
    const word = words.find((known) => known === given);
    if (word === undefined) faults.push(`${name}: must be ${words.join(', ')}`);
    return word ?? fallback;
  };

  const databaseUrl = text('DATABASE_URL');
  if (databaseUrl !== null && !isPostgresUrl(databaseUrl))
    faults.push('DATABASE_URL: must be an address like postgres://user:password@host:5432/database');
  const workers = whole('GATEWAY_WORKERS', 1, 1, 256);
  if (workers > 1 && databaseUrl === null && command === 'start') {
    faults.push('GATEWAY_WORKERS: more than 1 needs DATABASE_URL: the embedded database is for one process');
  }
  if (databaseUrl === null && (command === 'serve' || command === 'worker' || command === 'migrate')) {
    faults.push(
      `DATABASE_URL: gateway ${command} needs it; with the embedded database use npm start, which does everything in one process`,
    );
  }
  const adminToken = text('GATEWAY_ADMIN_TOKEN');
  if (adminToken !== null && !/^[\x21-\x7e]{16,}$/.test(adminToken))
    faults.push('GATEWAY_ADMIN_TOKEN: must have at least 16 characters, without spaces');
  const temporal = readTemporal(text, oneOf, faults);
  // Each process would start a dev server of its own, and what one leaves to be done the others would never see.
  if (temporal.mode === 'dev' && (command === 'serve' || command === 'worker')) {
    faults.push(`TEMPORAL_ADDRESS: gateway ${command} needs it; without durable work set GATEWAY_TEMPORAL=off`);
  }
  const settings: EnvironmentSettings = {
    server: {
      host: text('HOST') ?? '127.0.0.1',
      port: whole('PORT', 8080, 0, 65_535),
      dataDir: text('GATEWAY_DATA_DIR') ?? '.gateway',
      databaseUrl,
      logLevel: oneOf('LOG_LEVEL', 'info', logLevels),
      workers,
      otlpEndpoint: text('OTEL_EXPORTER_OTLP_ENDPOINT'),
    },
    temporal,
    adminToken,
    journalSync: oneOf('GATEWAY_JOURNAL_SYNC', 'off', ['on', 'off']) === 'on',
  };
  return { settings, faults };
}

function readTemporal(
  text: (name: string) => string | null,
  oneOf: (name: string, fallback: 'on' | 'off', words: readonly ('on' | 'off')[]) => 'on' | 'off',
  faults: string[],
): TemporalConfig {
  const address = text('TEMPORAL_ADDRESS');
  if (address !== null && !/^(?:\[[0-9a-fA-F:]+\]|[^\s:/]+):\d{1,5}$/.test(address)) faults.push('TEMPORAL_ADDRESS: must be host:port');
  const mode = oneOf('GATEWAY_TEMPORAL', 'on', ['on', 'off']) === 'off' ? 'off' : address === null ? 'dev' : 'external';
  const apiKey = text('TEMPORAL_API_KEY');
  const files: TemporalTls = {
    serverName: text('TEMPORAL_TLS_SERVER_NAME'),
    caFile: text('TEMPORAL_TLS_SERVER_CA_CERT_PATH'),
    certificateFile: text('TEMPORAL_TLS_CLIENT_CERT_PATH'),
    keyFile: text('TEMPORAL_TLS_CLIENT_KEY_PATH'),
  };
  if ((files.certificateFile === null) !== (files.keyFile === null)) {
    faults.push('TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH: both or none');
  }
  const wanted = text('TEMPORAL_TLS')?.toLowerCase() ?? null;
  if (wanted !== null && !['true', 'false', '1', '0'].includes(wanted)) faults.push('TEMPORAL_TLS: must be true or false');
  // An API key travels only over TLS, and whoever names files means it.
  const implied = apiKey !== null || Object.values(files).some((file) => file !== null);
  const encrypted = wanted === null ? implied : wanted === 'true' || wanted === '1';
  return {
    mode,
    address: mode === 'external' ? address : null,
    namespace: text('TEMPORAL_NAMESPACE') ?? (mode === 'dev' ? null : 'default'),
    apiKey,
    tls: encrypted ? files : null,
    payloadKeys: readPayloadKeys(text('TEMPORAL_PAYLOAD_KEY'), faults),
    workerBuildId: text('TEMPORAL_WORKER_BUILD_ID'),
  };
}

/** Keys separated by commas. What is wrong with one is told without quoting it. */
function readPayloadKeys(given: string | null, faults: string[]): readonly string[] {
  const keys = given === null ? [] : given.split(',').map((key) => key.trim());
  const isKey = (key: string): boolean => /^[A-Za-z0-9+/]{43}=$/.test(key);
  if (keys.every(isKey)) return keys;
  faults.push('TEMPORAL_PAYLOAD_KEY: must be 32 random bytes in base64 (openssl rand -base64 32), or several of them separated by commas');
  return [];
}

function isPostgresUrl(text: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(text) && URL.canParse(text);
}
