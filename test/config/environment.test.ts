import { homedir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { cacheDirectory } from '../../src/config/cache-directory.ts';
import { parseEnvironment } from '../../src/config/environment.ts';

test('uses the embedded database and default settings if no environment variables are set', () => {
  expect(parseEnvironment({})).toEqual({
    errors: [],
    settings: {
      server: {
        host: '127.0.0.1',
        port: 8080,
        dataDir: '.gateway',
        databaseUrl: null,
        logLevel: 'info',
        logFormat: 'auto',
        apiProcesses: 1,
        bodyMemoryBytes: 512 * 1024 * 1024,
        stopDelayMs: 0,
        stopTimeoutMs: 10_000,
        metricsAddress: null,
      },
      temporal: {
        mode: 'dev',
        address: null,
        namespace: null,
        createNamespace: false,
        apiKey: null,
        tls: null,
        payloadKeys: [],
        workerBuildId: null,
        uiUrl: null,
      },
      tracing: null,
      adminTokens: [],
      journalSync: false,
      localEmbedder: { mode: 'auto', folder: null },
    },
  });
});

test('reports all invalid environment variables together, without their values', () => {
  const { errors } = parseEnvironment({
    PORT: '80x',
    LOG_LEVEL: 'loud',
    DATABASE_URL: 'mysql://user:hunter2@host/db',
    GATEWAY_API_PROCESSES: '0',
    GATEWAY_ADMIN_TOKEN: 'short',
    GATEWAY_METRICS_ADDRESS: '9464',
    GATEWAY_TEMPORAL: 'maybe',
    TEMPORAL_ADDRESS: 'http://host',
    TEMPORAL_TLS_CLIENT_KEY_PATH: '/key',
    TEMPORAL_UI_URL: 'temporal.example.com',
    GATEWAY_JOURNAL_SYNC: 'often',
  });
  expect(errors.map((error) => error.split(':', 1)[0]).sort()).toEqual([
    'DATABASE_URL',
    'GATEWAY_ADMIN_TOKEN',
    'GATEWAY_API_PROCESSES',
    'GATEWAY_JOURNAL_SYNC',
    'GATEWAY_METRICS_ADDRESS',
    'GATEWAY_TEMPORAL',
    'LOG_LEVEL',
    'PORT',
    'TEMPORAL_ADDRESS',
    'TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH',
    'TEMPORAL_UI_URL',
  ]);
  expect(errors.join()).not.toMatch(/hunter2|short/);
});

test('`gateway serve` and `gateway worker` require DATABASE_URL', () => {
  expect(parseEnvironment({ GATEWAY_API_PROCESSES: '2' }).errors).toEqual([
    expect.stringContaining('GATEWAY_API_PROCESSES: more than 1 requires DATABASE_URL'),
  ]);
  expect(parseEnvironment({ GATEWAY_API_PROCESSES: '2', DATABASE_URL: 'postgres://gateway@db/gateway' }).errors).toEqual([]);
  for (const command of ['serve', 'worker', 'migrate'] as const) {
    expect(parseEnvironment({ GATEWAY_TEMPORAL: 'off' }, command).errors).toEqual([
      expect.stringContaining(`DATABASE_URL: is required for gateway ${command}`),
    ]);
  }
  const env = { DATABASE_URL: 'postgres://gateway@db/gateway' };
  for (const command of ['serve', 'worker'] as const) {
    expect(parseEnvironment(env, command).errors).toEqual([
      expect.stringContaining(`TEMPORAL_ADDRESS: is required for gateway ${command}`),
    ]);
    expect(parseEnvironment({ ...env, TEMPORAL_ADDRESS: 'a:7233' }, command).errors).toEqual([]);
  }
  expect(parseEnvironment(env, 'migrate').errors).toEqual([]);
});

test('still accepts GATEWAY_WORKERS as the old name of GATEWAY_API_PROCESSES', () => {
  const parse = (env: Record<string, string>) => parseEnvironment({ DATABASE_URL: 'postgres://gateway@db/gateway', ...env });
  expect(parse({ GATEWAY_WORKERS: '3' })).toMatchObject({ settings: { server: { apiProcesses: 3 } }, errors: [] });
  expect(parse({ GATEWAY_WORKERS: '3', GATEWAY_API_PROCESSES: '3' })).toMatchObject({
    settings: { server: { apiProcesses: 3 } },
    errors: [],
  });
  expect(parse({ GATEWAY_WORKERS: '3', GATEWAY_API_PROCESSES: '2' }).errors).toEqual([
    expect.stringContaining('GATEWAY_API_PROCESSES, GATEWAY_WORKERS:'),
  ]);
  expect(parse({ GATEWAY_WORKERS: '0' }).errors).toEqual([expect.stringMatching(/^GATEWAY_WORKERS: must be/)]);
});

test('can run without Temporal, with an external Temporal server or with a development server', () => {
  const temporalOf = (env: Record<string, string>) => parseEnvironment(env).settings.temporal;
  expect(temporalOf({ GATEWAY_TEMPORAL: 'off', TEMPORAL_ADDRESS: 'a:7233' })).toMatchObject({ mode: 'off', address: null });
  expect(temporalOf({ TEMPORAL_ADDRESS: 'a:7233' })).toMatchObject({
    mode: 'external',
    address: 'a:7233',
    namespace: 'default',
    tls: null,
  });
  expect(temporalOf({ TEMPORAL_ADDRESS: 'a:7233', TEMPORAL_API_KEY: 'k', TEMPORAL_NAMESPACE: 'n' })).toMatchObject({
    namespace: 'n',
    apiKey: 'k',
    tls: { serverName: null, caFile: null, certificateFile: null, keyFile: null },
  });
  expect(temporalOf({ TEMPORAL_NAMESPACE: 'mine' })).toMatchObject({ mode: 'dev', namespace: 'mine', createNamespace: false });
  expect(temporalOf({ TEMPORAL_ADDRESS: 'a:7233', TEMPORAL_CREATE_NAMESPACE: 'true' })).toMatchObject({ createNamespace: true });
});

test('requires TEMPORAL_UI_URL to be an http address', () => {
  const uiUrlOf = (url: string) => {
    const { settings, errors } = parseEnvironment({ TEMPORAL_UI_URL: url });
    return errors.length > 0 ? errors : settings.temporal.uiUrl;
  };
  expect(uiUrlOf('https://temporal.example.com/ui/')).toBe('https://temporal.example.com/ui');
  for (const url of ['ftp://host', 'https://user:secret@host', 'https://host/?q=1', 'https://', 'javascript:alert(1)'])
    expect(uiUrlOf(url)).toEqual(['TEMPORAL_UI_URL: must be an address like https://temporal.example.com, without a query']);
});

test('accepts a comma-separated list of keys in TEMPORAL_PAYLOAD_KEY', () => {
  const key = Buffer.alloc(32, 7).toString('base64');
  const other = Buffer.alloc(32, 8).toString('base64');
  expect(parseEnvironment({ TEMPORAL_PAYLOAD_KEY: key }).settings.temporal.payloadKeys).toEqual([key]);
  expect(parseEnvironment({ TEMPORAL_PAYLOAD_KEY: `${key}, ${other}` }).settings.temporal.payloadKeys).toEqual([key, other]);
  const short = Buffer.alloc(16, 9).toString('base64');
  for (const wrong of [short, `${key},`, `${key},${short}`, 'secret']) {
    const { errors } = parseEnvironment({ TEMPORAL_PAYLOAD_KEY: wrong });
    expect(errors).toEqual([expect.stringContaining('TEMPORAL_PAYLOAD_KEY: must be 32 random bytes in base64')]);
    expect(errors.join()).not.toContain(short);
  }
});

test('configures tracing from the standard OTLP environment variables', () => {
  const tracingOf = (env: Record<string, string>) => parseEnvironment(env);
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/' };
  expect(tracingOf(endpoint).settings.tracing).toEqual({
    url: 'http://collector:4318/v1/traces',
    headers: {},
    timeoutMs: 10_000,
    resource: { 'service.name': 'model-gateway' },
    sampler: { ratio: 1, followsParent: true },
  });
  const all = {
    ...endpoint,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://traces.example.com/in',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20hunter2, x-team=a=b',
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-team=c',
    OTEL_EXPORTER_OTLP_TIMEOUT: '500',
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.01',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=other,deployment.environment.name=test%2C1',
    OTEL_SERVICE_NAME: 'gateway',
  };
  expect(tracingOf(all)).toMatchObject({
    errors: [],
    settings: {
      tracing: {
        url: 'https://traces.example.com/in',
        headers: { authorization: 'Bearer hunter2', 'x-team': 'c' },
        timeoutMs: 500,
        resource: { 'service.name': 'gateway', 'deployment.environment.name': 'test,1' },
        sampler: { ratio: 0.01, followsParent: false },
      },
    },
  });
  for (const off of [{ OTEL_SDK_DISABLED: 'true' }, { OTEL_TRACES_EXPORTER: 'none' }])
    expect(tracingOf({ ...all, ...off })).toMatchObject({ errors: [], settings: { tracing: null } });
  const wrong = {
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc',
    OTEL_TRACES_EXPORTER: 'zipkin',
    OTEL_EXPORTER_OTLP_HEADERS: 'hunter2',
    OTEL_EXPORTER_OTLP_TIMEOUT: 'soon',
    OTEL_TRACES_SAMPLER_ARG: '2',
    OTEL_RESOURCE_ATTRIBUTES: 'a=%hunter2',
  };
  const { errors } = tracingOf({ ...all, ...wrong });
  expect(errors.map((error) => error.split(':', 1)[0]).sort()).toEqual(Object.keys(wrong).sort());
  expect(errors.join()).not.toContain('hunter2');
  expect(tracingOf({ ...endpoint, OTEL_TRACES_SAMPLER: 'sometimes' }).errors).toEqual([
    expect.stringContaining('OTEL_TRACES_SAMPLER: must be one of always_on, always_off, traceidratio, parentbased_always_on'),
  ]);
  expect(tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }).errors).toEqual([
    'OTEL_EXPORTER_OTLP_ENDPOINT: must be an address like http://localhost:4318',
  ]);
});

test('puts the cache directory in XDG_CACHE_HOME if it is an absolute path', () => {
  expect(cacheDirectory({ XDG_CACHE_HOME: '/var/cache' })).toBe('/var/cache/model-gateway');
  for (const ignored of [{}, { XDG_CACHE_HOME: 'cache' }]) expect(cacheDirectory(ignored)).toBe(join(homedir(), '.cache', 'model-gateway'));
});
