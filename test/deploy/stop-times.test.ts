/**
 * Tests that all timeouts which could cut off a call during a shutdown are derived from GATEWAY_STOP_TIMEOUT_SECONDS.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { parseEnvironment } from '../../src/config/environment.ts';
import { composeSecrets, readCompose, serviceOf } from '../support/compose.ts';
import { root } from '../support/gateway-process.ts';

const name = 'GATEWAY_STOP_TIMEOUT_SECONDS';
/**
 * docs/architecture/processes.md#stop: a worker that hangs 10 s, cancelled calls 2 s, drain 5 s, leases 2 s, database 2
 * s, traces 5 s.
 */
const otherPhases = 10 + 2 + 5 + 2 + 2 + 5;
const defaults = (command: 'serve' | 'worker'): number => parseEnvironment({}, command).settings.server.stopTimeoutMs / 1_000;

/** Compose adds up the parts of a duration such as `5s600s30s`. */
const secondsOf = (duration = ''): number => {
  expect(duration).toMatch(/^(?:\d+s)+$/);
  return [...duration.matchAll(/(\d+)s/g)].reduce((sum, [, seconds]) => sum + Number(seconds), 0);
};

const page = readFileSync(join(root, 'docs/kubernetes.md'), 'utf8');
const manifests = [...page.matchAll(/^```yaml\n(.*?)^```$/gms)].flatMap(([, block = '']) =>
  parseAllDocuments(block).map((document) => document.toJS()),
);
const proxy = readFileSync(join(root, 'deploy/haproxy/haproxy.cfg'), 'utf8');

test('running calls have ten minutes to finish at shutdown by default', () => {
  expect([defaults('serve'), defaults('worker')]).toEqual([600, 600]);
});

describe.each([
  ['by default', {}, 600],
  ['with a different value in .env', { [name]: '1800' }, 1_800],
])('Compose %s', (_title, variables, seconds) => {
  const compose = readCompose({ ...composeSecrets, ...variables });

  test.each(['gateway-1', 'gateway-2', 'worker'])('Compose gives %s enough time to stop before it is killed', (service) => {
    const { environment, stop_grace_period: grace } = serviceOf(compose, service);
    expect(Number(environment?.[name])).toBe(seconds);
    const delay = service === 'worker' ? 0 : Number(environment?.GATEWAY_STOP_DELAY_SECONDS);
    expect(secondsOf(grace)).toBeGreaterThan(delay + seconds + otherPhases);
  });

  test('Compose kills the proxy only after its connections have had time to end', () => {
    const { environment, stop_grace_period: grace } = serviceOf(compose, 'proxy');
    expect(Number(environment?.[name])).toBe(seconds);
    expect([...proxy.matchAll(/^ *hard-stop-after (.*)$/gm)].map(([, value]) => value)).toEqual([`"\${${name}}s"`]);
    expect(secondsOf(grace)).toBeGreaterThan(seconds);
  });
});

test('the proxy keeps idle connections for as long as the longest stop timeout', () => {
  const longest = 3_600;
  expect(parseEnvironment({ [name]: String(longest) }, 'serve').errors.filter((error) => error.startsWith(name))).toEqual([]);
  expect(parseEnvironment({ [name]: String(longest + 1) }, 'serve').errors).toContain(
    `${name}: must be a whole number from 0 to ${longest}`,
  );
  for (const side of ['client', 'server']) expect(proxy).toMatch(new RegExp(`^ *timeout ${side} ${longest / 3_600}h$`, 'm'));
  expect(proxy).not.toMatch(/^[^#]*(?:shutdown-sessions|timeout tunnel)/m);
});

test('Kubernetes gives pods enough time to stop', () => {
  const seconds = Number(manifests.find(({ kind, data }) => kind === 'ConfigMap' && data[name] !== undefined)?.data[name]);
  expect(seconds).toBe(defaults('serve'));
  const pods = manifests.filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment').map(({ spec }) => spec.template.spec);
  expect(pods).toHaveLength(2);
  for (const { terminationGracePeriodSeconds, containers } of pods) {
    const [{ args, env = [], envFrom }] = containers;
    expect(envFrom).toContainEqual({ configMapRef: { name: 'gateway' } });
    const delay = Number(env.find((variable: { name: string }) => variable.name === 'GATEWAY_STOP_DELAY_SECONDS')?.value ?? 0);
    expect([args, terminationGracePeriodSeconds - delay - seconds]).toEqual([args, 30]);
  }
  expect(otherPhases).toBeLessThan(30);
});
