import { once } from 'node:events';
import { mkdtemp, rm, utimes } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { findAddress, publishAddress } from '../../src/cli/addresses.ts';
import { unusedUrl } from '../support/unused-port.ts';

let dataDir = '';
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'gateway-addresses-'));
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

test('finds the address of the service that uses a data directory', async () => {
  const service = createServer((_request, response) => void response.end());
  service.listen(0, '127.0.0.1');
  await once(service, 'listening');
  const address = service.address();
  const living = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  try {
    await publishAddress(dataDir, living);
    await utimes(join(dataDir, 'addresses', new URL(living).host.replace(':', '-')), 1, 1);
    const killed = await unusedUrl();
    const withdraw = await publishAddress(dataDir, killed);
    expect(await findAddress(dataDir)).toBe(living);
    await withdraw();
    expect(await findAddress(dataDir)).toBe(living);
  } finally {
    service.close();
  }
});

test('falls back to the newest published address if no service responds', async () => {
  expect(await findAddress(dataDir)).toBe(null);
  const [older, newer] = [await unusedUrl(), await unusedUrl()];
  await publishAddress(dataDir, older);
  await utimes(join(dataDir, 'addresses', new URL(older).host.replace(':', '-')), 1, 1);
  await publishAddress(dataDir, newer);
  expect(await findAddress(dataDir)).toBe(newer);
});
