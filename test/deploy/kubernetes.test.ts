/**
 * Checks the manifests in docs/kubernetes.md against the code. They have to be valid, refer to each other correctly,
 * and only contain settings that the service accepts.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { parse, parseAllDocuments } from 'yaml';
import { loadConfig } from '../../src/config/load.ts';
import type { Command } from '../../src/config/variables.ts';
import { servesNamespace } from '../../src/temporal/connection/temporal-connection.ts';
import { readDockerfile } from '../support/dockerfile.ts';
import { root } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres, openTestDatabase, runAsAdmin } from '../support/postgres.ts';
import { ensurePostgres } from '../support/postgres-install.ts';
import { run } from '../support/run.ts';
import { ensureTemporal } from '../support/temporal-program.ts';
import { createTemporalServer } from '../support/temporal-server.ts';

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly periodSeconds: number;
  readonly failureThreshold: number;
}

interface PodTemplate {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> };
  readonly spec: {
    readonly terminationGracePeriodSeconds?: number;
    readonly securityContext: { readonly runAsNonRoot: boolean; readonly runAsUser: number; readonly fsGroup: number };
    readonly containers: readonly {
      readonly image: string;
      readonly command?: readonly string[];
      readonly args: readonly [Command];
      readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
      readonly env?: readonly { readonly name: string; readonly value: string }[];
      readonly envFrom: readonly { readonly secretRef?: { readonly name: string }; readonly configMapRef?: { readonly name: string } }[];
      readonly startupProbe?: Probe;
      readonly livenessProbe?: Probe;
      readonly readinessProbe?: Probe;
      readonly resources: { readonly limits: { readonly memory: string; readonly cpu?: string } };
      readonly securityContext: { readonly readOnlyRootFilesystem: boolean; readonly allowPrivilegeEscalation: boolean };
      readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
    }[];
    readonly volumes: readonly { readonly name: string; readonly configMap?: { readonly name: string } }[];
  };
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly stringData?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly template?: PodTemplate;
    readonly selector?: { readonly matchLabels?: Readonly<Record<string, string>>; readonly app?: string };
    readonly serviceName?: string;
    readonly ports?: readonly { readonly targetPort: string }[];
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[];
  };
}

const page = readFileSync(join(root, 'docs/kubernetes.md'), 'utf8');
const blocks = [...page.matchAll(/^```yaml\n(.*?)^```$/gms)].map((match) => match[1] ?? '');
const documents = blocks.flatMap((block) => parseAllDocuments(block));
const manifests = documents.map((document) => document.toJS() as Manifest);
const image = readDockerfile();
const packageFile = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly version: string };
/** The page describes the next release. */
const version = packageFile.version.replace('-dev', '');
const templates = manifests.flatMap(({ kind, metadata: { name }, spec }) => {
  const [container] = spec?.template?.spec.containers ?? [];
  return spec?.template && container
    ? [{ kind, name, spec, pod: spec.template.spec, labels: spec.template.metadata.labels, container }]
    : [];
});
/** These run the gateway's image. The other Jobs prepare its services. */
const workloads = templates.filter(({ container }) => container.args !== undefined);
const find = (kind: string, name: string): Manifest | undefined =>
  manifests.find((object) => object.kind === kind && object.metadata.name === name);

describe('the manifests of docs/kubernetes.md', () => {
  test('the manifests define every object that docs/kubernetes.md mentions', () => {
    expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
    expect(manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([
      ...['Secret gateway-superuser', 'Job gateway-vector', 'Job gateway-temporal-namespace'],
      ...['Secret gateway', 'ConfigMap gateway', 'ConfigMap gateway-yaml', `Job gateway-migrate-${version.replaceAll('.', '-')}`],
      ...['StatefulSet gateway', 'Service gateway-pods', 'Service gateway', 'PodDisruptionBudget gateway', 'Deployment gateway-worker'],
    ]);
    const named = [...page.matchAll(/job\/([\w-]+)/g)].map((match) => match[1]);
    expect(new Set(named)).toEqual(new Set([`gateway-migrate-${version.replaceAll('.', '-')}`]));
  });

  test('the manifests refer only to selectors, services and volumes that exist', () => {
    const labels = new Set(workloads.map((workload) => workload.labels.app));
    for (const { spec } of manifests) {
      const app = spec?.selector?.matchLabels?.app ?? spec?.selector?.app;
      if (app !== undefined) expect(labels).toContain(app);
    }
    for (const { spec, pod, container } of workloads) {
      if (spec.serviceName !== undefined) expect(find('Service', spec.serviceName)).toBeDefined();
      const volumes = [...pod.volumes.map(({ name }) => name), ...(spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name)];
      expect(container.volumeMounts.map(({ name }) => name).toSorted()).toEqual(volumes.toSorted());
      for (const { configMap } of pod.volumes) if (configMap) expect(find('ConfigMap', configMap.name)).toBeDefined();
    }
  });

  test("pods run this version's image as a non-root user", () => {
    expect(workloads.map(({ container }) => container.args)).toEqual([['migrate'], ['serve'], ['worker']]);
    for (const { pod, container } of workloads) {
      expect(container.image).toBe(`registry.example.com/model-gateway:${version}`);
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000 });
      expect(container.securityContext).toMatchObject({ readOnlyRootFilesystem: true, allowPrivilegeEscalation: false });
      expect(container.resources.limits.memory).toMatch(/^\d+[GM]i$/);
      const [command] = container.args;
      if (command === 'migrate') continue;
      const [, metricsPort] = find('ConfigMap', 'gateway')?.data?.GATEWAY_METRICS_ADDRESS?.split(':') ?? [];
      expect(container.ports).toEqual([
        { name: 'http', containerPort: Number(image.env.PORT) },
        { name: 'metrics', containerPort: Number(metricsPort) },
      ]);
      expect(container.volumeMounts.map(({ mountPath }) => mountPath)).toContain(image.env.GATEWAY_DATA_DIR);
    }
  });

  test('liveness probes use /healthz and readiness probes use /readyz', () => {
    const server = readFileSync(join(root, 'src/http/server.ts'), 'utf8');
    for (const { container } of workloads.slice(1)) {
      const { startupProbe, livenessProbe, readinessProbe } = container;
      for (const probe of [startupProbe, livenessProbe, readinessProbe]) {
        expect(probe?.httpGet.port).toBe('http');
        expect(server).toContain(`app.get('${probe?.httpGet.path}', `);
      }
      expect([startupProbe, livenessProbe, readinessProbe].map((probe) => probe?.httpGet.path)).toEqual([
        '/healthz',
        '/healthz',
        '/readyz',
      ]);
    }
  });

  test('the readiness probe notices in time that a process is stopping', () => {
    for (const { container } of workloads.slice(1)) {
      const delay = Number(container.env?.find(({ name }) => name === 'GATEWAY_STOP_DELAY_SECONDS')?.value ?? 0);
      const { periodSeconds = 0, failureThreshold = 0 } = container.readinessProbe ?? {};
      if (delay > 0) expect(periodSeconds * failureThreshold).toBeLessThan(delay);
    }
  });

  test('the manifests use only settings that exist', () => {
    const settings = readdirSync(join(root, 'src/config'))
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(join(root, 'src/config', file), 'utf8'));
    for (const { container } of workloads) {
      const sources = container.envFrom.map(({ secretRef, configMapRef }) =>
        secretRef ? find('Secret', secretRef.name)?.stringData : find('ConfigMap', configMapRef?.name ?? '')?.data,
      );
      const own = Object.fromEntries((container.env ?? []).map(({ name, value }) => [name, value]));
      const env: Record<string, string> = Object.assign({}, image.env, ...sources, own);
      for (const name of Object.keys(env))
        if (!(name in image.env)) expect([name, settings.join('')]).toEqual([name, expect.stringContaining(name)]);
      const fileName = env.GATEWAY_CONFIG ?? '';
      const [, folder = '', file = ''] = /^(.*)\/([^/]+)$/.exec(fileName) ?? [];
      expect(container.volumeMounts.map(({ mountPath }) => mountPath)).toContain(folder);
      const fileText = find('ConfigMap', 'gateway-yaml')?.data?.[file] ?? '';
      expect(parse(fileText)).toHaveProperty('providers');
      const config = loadConfig({ env, fileText, fileName, command: container.args[0] });
      expect(config.temporal.mode).toBe('external');
      expect([...Object.keys(config.providers)]).toEqual(['openai']);
    }
  });

  describePostgres('prepare PostgreSQL', () => {
    test('the setup job creates the vector extension if the database lacks it', async () => {
      const { url, drop } = await createTestDatabase('empty');
      try {
        await runAsAdmin(url, 'drop extension if exists vector cascade');
        const { command } = containerOf('gateway-vector');
        const path = [await ensurePostgres().catch(() => ''), process.env.PATH].filter(Boolean).join(delimiter);
        for (const _start of [1, 2]) await run(command[0] ?? '', command.slice(1), { env: { PATH: path, DATABASE_URL: url } });
        const database = openTestDatabase(url, 1);
        const rows = await database.query(`select 1 as found from pg_extension where extname = 'vector'`).finally(() => database.close());
        expect(rows).toEqual([{ found: 1 }]);
      } finally {
        await drop();
      }
    });
  });

  test('the setup job creates the Temporal namespace that the gateway uses', async () => {
    const { command, env = [] } = containerOf('gateway-temporal-namespace');
    const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    const settings = find('ConfigMap', 'gateway')?.data;
    expect(variables).toMatchObject({ TEMPORAL_ADDRESS: settings?.TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE: settings?.TEMPORAL_NAMESPACE });
    const temporal = await createTemporalServer();
    try {
      const PATH = `${dirname(await ensureTemporal())}:/usr/bin:/bin`;
      const own = { ...variables, PATH, TEMPORAL_ADDRESS: temporal.address };
      for (const _start of [1, 2]) await run(command[0] ?? '', command.slice(1), { env: own });
      expect(await servesNamespace(temporal.address, String(settings?.TEMPORAL_NAMESPACE))).toBe(true);
    } finally {
      await temporal.remove();
    }
  });
});

function containerOf(job: string) {
  const container = templates.find(({ name }) => name === job)?.container;
  if (!container?.command) throw new Error(`${job} has no command`);
  return { ...container, command: container.command };
}
