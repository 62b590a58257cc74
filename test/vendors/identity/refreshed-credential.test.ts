import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { VendorError } from '../../../src/core/errors.ts';
import { createBearerCredential } from '../../../src/vendors/identity/credential.ts';
import { createRefreshedCredential, type RefreshedCredential } from '../../../src/vendors/identity/refreshed-credential.ts';
import { createUnstalledClock } from '../../support/unstalled-clock.ts';
import { until } from '../../support/until.ts';

const running: { stop(): void }[] = [];
afterEach(() => {
  for (const part of running.splice(0)) part.stop();
});

/** A cloud that issues numbered tokens, unless it fails. */
function createCloud(lifetimeMs: number | null) {
  const cloud = { issued: 0, requests: 0, failure: null as Error | null, hangs: false, lifetimeMs };
  const clock = createUnstalledClock();
  const recovered: string[] = [];
  const failed: string[] = [];
  const credential = createRefreshedCredential({
    name: 'aws',
    clock,
    async load() {
      cloud.requests += 1;
      if (cloud.hangs) await new Promise<void>(() => undefined);
      if (cloud.failure) throw cloud.failure;
      cloud.issued += 1;
      return createBearerCredential(`token-${cloud.issued}`, cloud.lifetimeMs === null ? null : clock.now() + cloud.lifetimeMs);
    },
    onFailure: (problem) => void failed.push(problem),
    onRecovered: () => void recovered.push('recovered'),
  });
  running.push(credential, clock);
  return { cloud, credential, failed, recovered };
}

function errorOf(credential: RefreshedCredential): VendorError {
  try {
    credential.current();
  } catch (error) {
    if (error instanceof VendorError) return error;
  }
  throw new Error('there is a credential');
}

describe('a credential from a cloud', () => {
  test('refreshes a cloud credential before it expires', async () => {
    const { cloud, credential } = createCloud(2_000);
    credential.start();
    await credential.firstAttempt(10_000);
    let checks = 0;
    await until('the third token', () => {
      credential.current();
      checks += 1;
      return cloud.issued === 3;
    });
    expect(checks).toBeGreaterThan(3);
    expect(credential.state()).toMatchObject({ isValid: true, failures: 0, problem: null });
  });

  test("keeps using a credential until it expires if it can't be refreshed", async () => {
    const { cloud, credential, failed, recovered } = createCloud(3_000);
    credential.start();
    await credential.firstAttempt(10_000);
    cloud.failure = new Error('Throttling: Rate exceeded');
    await until('a failed refresh', () => failed.length > 0);
    expect(credential.state()).toMatchObject({ isValid: true, failures: 1, problem: 'Throttling: Rate exceeded' });
    expect(credential.current().secrets).toEqual(['token-1']);

    await until('the end of the token', () => !credential.state().isValid);
    expect(errorOf(credential)).toMatchObject({
      kind: 'connect',
      isWithoutCredential: true,
      isUnsent: true,
      message: 'the gateway has no valid credential for its aws identity',
      detail: expect.stringContaining('Throttling: Rate exceeded'),
    });
    expect(credential.state().remainingMs).toBe(0);

    cloud.failure = null;
    await until('recovery', () => recovered.length === 1);
    expect(credential.current().secrets).toEqual(['token-2']);
    expect(credential.secrets()).toEqual(['token-2', 'token-1']);
  });

  test("doesn't retry in a busy loop while the cloud can't issue credentials", async () => {
    const { cloud, credential } = createCloud(null);
    cloud.failure = new Error('down');
    credential.start();
    await credential.firstAttempt(10_000);
    for (let call = 0; call < 100; call += 1) {
      credential.refreshEarly();
      errorOf(credential);
    }
    await sleep(500);
    expect(cloud.requests).toBe(1);
  });

  test('fails calls immediately while there is no cloud credential yet', async () => {
    const { cloud, credential } = createCloud(null);
    cloud.hangs = true;
    credential.start();
    await credential.firstAttempt(10);
    expect(errorOf(credential).detail).toMatch(/the first credential has not arrived yet$/);
  });

  test('refreshes a credential only once if the vendor rejects it', async () => {
    const { cloud, credential } = createCloud(3_600_000);
    credential.start();
    await credential.firstAttempt(10_000);
    for (let call = 0; call < 10; call += 1) credential.refreshEarly();
    await until('the second token', () => cloud.issued === 2);
    credential.refreshEarly();
    await sleep(200);
    expect(cloud.issued).toBe(2);
  });

  test('treats a credential that has already expired as a failure', async () => {
    const { credential } = createCloud(-1);
    credential.start();
    await credential.firstAttempt(10_000);
    expect(credential.state().problem).toMatch(/has already expired; check this machine's clock/);
  });

  test("doesn't refresh a credential after it was stopped", async () => {
    const { cloud, credential } = createCloud(1_000);
    credential.start();
    await credential.firstAttempt(10_000);
    credential.stop();
    await sleep(1_500);
    expect(cloud.requests).toBe(1);
  });
});
