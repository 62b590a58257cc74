/**
 * Checks what people who read docker-compose.yml and the Dockerfile rely on. test/service/compose.test.ts runs these
 * files.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { DCLinter } from 'dclint';
import { validate } from 'dockerfile-utils';
import { parse } from 'yaml';
import { type ComposeService, composeSecrets, observabilitySecrets, readCompose, serviceOf } from '../support/compose.ts';
import { readDockerfile } from '../support/dockerfile.ts';
import { root } from '../support/gateway-process.ts';

const compose = readCompose({ ...composeSecrets, ...observabilitySecrets });
const services = Object.entries(compose.services);
const image = readDockerfile();
const version: string = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
const text = readFileSync(join(root, 'docker-compose.yml'), 'utf8');

const isJob = ({ restart }: ComposeService): boolean => restart?.startsWith('on-failure') ?? false;
const namesWhere = (condition: (service: ComposeService) => boolean): string[] =>
  services.filter(([, service]) => condition(service)).map(([name]) => name);

describe('docker-compose.yml', () => {
  test('docker-compose.yml is valid and passes the linter', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'gateway-compose-'));
    try {
      const file = join(folder, 'docker-compose.yml');
      writeFileSync(file, JSON.stringify(compose, null, 2));
      // We turn off these rules because the image is built and named, the order is for readers, and the file is JSON
      // here.
      const off = ['no-build-and-image', 'no-quotes-in-volumes', 'require-quotes-in-ports', ...ordering].map((rule) => [rule, 0] as const);
      const linter = new DCLinter({ rules: Object.fromEntries(off), quiet: true, debug: false, exclude: [] });
      // The package's types import without extensions, which TypeScript does not resolve.
      const found = linter.lintFiles([file], false) as readonly { messages: readonly { rule: string; message: string }[] }[];
      expect(found.flatMap(({ messages }) => messages.map(({ rule, message }) => `${rule}: ${message}`))).toEqual([]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test.each(Object.keys(composeSecrets))('requires %s without a default', (name) => {
    expect(() => readCompose({ ...composeSecrets, [name]: '' })).toThrow(
      `required variable ${name} is missing a value: set ${name} in .env`,
    );
  });

  test.each([
    ['grafana', 'GRAFANA_ADMIN_PASSWORD'],
    ['grafana-role', 'GRAFANA_DB_PASSWORD'],
  ])('fails to start %s without %s', (name, secret) => {
    const { entrypoint = [], command = [], environment, profiles, volumes = [] } = serviceOf(readCompose(), name);
    expect(profiles).toEqual(['observability']);
    const mounted = new Map(volumes.map((volume) => volume.split(':')).map(([source = '', target = '']) => [target, join(root, source)]));
    const [file = '', ...args] = [...entrypoint, ...command];
    const { status, stderr } = spawnSync(mounted.get(file) ?? file, args, { env: environment as NodeJS.ProcessEnv, encoding: 'utf8' });
    expect(status).not.toBe(0);
    expect(stderr).toContain(`set ${secret} in .env`);
  });

  test('Prometheus scrapes every replica, the worker and the proxy', () => {
    const { scrape_configs, rule_files } = parse(readFileSync(join(root, 'deploy/prometheus/prometheus.yml'), 'utf8'));
    const targets = scrape_configs.flatMap(({ static_configs }: { static_configs: { targets: string[] }[] }) => static_configs[0]?.targets);
    const ownMetrics = namesWhere(({ environment }) => environment?.GATEWAY_METRICS_ADDRESS === '0.0.0.0:9464');
    expect(targets.toSorted()).toEqual(
      [...ownMetrics.filter((name) => name !== 'migrate').map((name) => `${name}:9464`), 'proxy:9465'].toSorted(),
    );
    expect(readFileSync(join(root, 'deploy/haproxy/haproxy.cfg'), 'utf8')).toContain('bind :9465\n');
    for (const file of rule_files) expect(existsSync(join(root, 'deploy/prometheus', file))).toBe(true);
    const networksOf = (name: string): readonly string[] => compose.services[name]?.networks ?? [];
    for (const target of targets)
      expect(networksOf(target.split(':')[0]).some((name) => networksOf('prometheus').includes(name))).toBe(true);
  });

  test('docker-compose.yml contains no secrets', () => {
    const names = Object.keys({ ...composeSecrets, ...observabilitySecrets });
    const own = readCompose(Object.fromEntries(names.map((name) => [name, `<${name}>`])));
    const secrets = Object.values(own.services).flatMap(({ environment = {} }) =>
      Object.entries(environment).filter(([name]) => /PASSWORD|PWD|TOKEN|SECRET|KEY|DATABASE_URL/.test(name)),
    );
    expect(secrets.length).toBeGreaterThan(5);
    expect(secrets.filter(([, value]) => !/<\w+>/.test(String(value)))).toEqual([]);
  });

  test('every service in docker-compose.yml has a pinned version and a read-only root', () => {
    expect(services.filter(([, service]) => !/^[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*$/.test(service.image)).map(([name]) => name)).toEqual([]);
    for (const [name, service] of services) {
      const { read_only, cap_drop, cap_add = [], security_opt, logging, deploy } = service;
      expect({ name, read_only, cap_drop, cap_add, security_opt }).toEqual({
        ...{ name, read_only: true, cap_drop: ['ALL'], cap_add: [] },
        security_opt: ['no-new-privileges:true'],
      });
      expect(Object.keys(deploy?.resources.limits ?? {}).toSorted()).toEqual(['cpus', 'memory', 'pids']);
      expect(Object.keys(logging?.options ?? {})).toEqual(['max-size', 'max-file']);
    }
  });

  test('every long-running service in docker-compose.yml has a health check', () => {
    expect(namesWhere((service) => !isJob(service) && !service.healthcheck?.test)).toEqual([]);
    expect(namesWhere((service) => isJob(service) && service.healthcheck?.test !== undefined && !service.healthcheck.disable)).toEqual([]);
  });

  test('docker-compose.yml publishes ports only on the loopback address', () => {
    const ports = services.flatMap(([, service]) => service.ports ?? []);
    expect(ports).toContain('127.0.0.1:8080:8080');
    expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([]);
  });

  test("services can reach each other where needed, and PostgreSQL's network is internal", () => {
    const networksOf = (name: string): readonly string[] => compose.services[name]?.networks ?? [];
    const unreachable = services.flatMap(([name, service]) => {
      const settings = JSON.stringify([service.environment, service.command]);
      const named = Object.keys(compose.services).filter((other) => new RegExp(`(?:@|endpoint |")${other}(?::\\d|"| )`).test(settings));
      return named
        .filter((other) => !networksOf(name).some((network) => networksOf(other).includes(network)))
        .map((other) => [name, other]);
    });
    expect(unreachable).toEqual([]);
    expect(networksOf('postgres').map((name) => compose.networks[name])).toEqual([{ internal: true }]);
  });

  test('docker-compose.yml mounts only existing files and declared volumes', () => {
    const sources = services.flatMap(([, { volumes = [] }]) => volumes.map((volume) => volume.split(':')[0] ?? ''));
    const files = sources.filter((source) => source.startsWith('./'));
    expect(files.length).toBeGreaterThan(2);
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
    expect(files.filter((file) => file.endsWith('.sh') && (statSync(join(root, file)).mode & 0o111) === 0)).toEqual([]);
    const named = new Set(sources.filter((source) => /^\w/.test(source)));
    expect([...named].toSorted()).toEqual(Object.keys(compose.volumes).toSorted());
  });

  test('the replicas are identical except for their journal volumes', () => {
    const [one, two] = ['gateway-1', 'gateway-2'].map((name) => serviceOf(compose, name));
    const journals = [one, two].map((replica) => replica?.volumes?.find((volume) => volume.endsWith(':/data')));
    expect(new Set(journals).size).toBe(2);
    expect({ ...one, volumes: [] }).toEqual({ ...two, volumes: [] });
    expect(namesWhere(({ volumes = [] }) => volumes.some((volume) => journals.includes(volume)))).toEqual(['gateway-1', 'gateway-2']);
  });

  test('a stopping replica fails its readiness checks long enough for the proxy to notice', () => {
    const proxy = readFileSync(join(root, 'deploy/haproxy/haproxy.cfg'), 'utf8');
    const millisecondsOf = (name: string): number => Number(new RegExp(` ${name} (\\d+)ms`).exec(proxy)?.[1]);
    const noticed = millisecondsOf('inter') + millisecondsOf('fastinter');
    const { environment } = serviceOf(compose, 'gateway-1');
    const delay = Number(environment?.GATEWAY_STOP_DELAY_SECONDS);
    expect(noticed).toBeLessThan((delay * 1_000) / 2);
    for (const name of ['gateway-1', 'gateway-2']) expect(proxy).toContain(`server ${name} ${name}:${image.env.PORT}\n`);
  });
});

const ordering = [
  'services-alphabetical-order',
  'service-keys-order',
  'service-dependencies-alphabetical-order',
  'top-level-properties-order',
].concat(['service-ports-alphabetical-order']);

describe('Dockerfile', () => {
  test('the Dockerfile passes its linter', () => {
    expect(validate(image.text)).toEqual([]);
  });

  test('every Dockerfile stage uses the Node version from .nvmrc', () => {
    const node = readFileSync(join(root, '.nvmrc'), 'utf8').trim();
    expect(new Set(image.from)).toEqual(new Set([`node:${node}-bookworm-slim`]));
    expect(image.text).toContain(`image.base.name="docker.io/library/node:${node}-bookworm-slim"`);
  });

  test('the image is labeled with the version in package.json', () => {
    expect(image.instructions).toContain(`ARG VERSION=${version}`);
    expect(image.instructions.join('\n')).toContain('org.opencontainers.image.version="$VERSION"');
    expect(serviceOf(compose, 'gateway-1').image).toBe(`model-gateway:${version}`);
  });

  test('the Dockerfile copies exactly the files that .dockerignore allows', () => {
    const ignored = readFileSync(join(root, '.dockerignore'), 'utf8').trim().split('\n');
    expect(ignored[0]).toBe('*');
    const sent = ignored.slice(1).map((line) => line.slice(1));
    const copied = [...image.copied.filter((path) => path !== 'node_modules'), 'package-lock.json'];
    expect(sent.toSorted()).toEqual(copied.toSorted());
    expect(sent.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    expect(readdirSync(join(root, 'src'))).toContain('main.ts');
  });

  test("the image doesn't run as root", () => {
    expect(image.instructions.findLast((line) => line.startsWith('USER '))).toBe('USER node');
    expect(image.instructions).toContain(`VOLUME ${image.env.GATEWAY_DATA_DIR}`);
    expect(image.instructions).toContain(`EXPOSE ${image.env.PORT}`);
    expect(image.instructions).toContain('STOPSIGNAL SIGTERM');
    expect(text).toContain(`127.0.0.1}:${image.env.PORT}:${image.env.PORT}`);
  });
});
