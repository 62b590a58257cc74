/** Tests that a service's embedder follows the configuration. */
import { expect, test } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { createSharedLocalEmbedder, describeMemorySearch, type Endpoint } from '../../src/service/local-embedder-config.ts';
import { eventually } from '../support/gateway.ts';

const configOf = (mode: 'on' | 'off', model = 'bge-small-en-v1.5') =>
  loadConfig({
    env: { GATEWAY_LOCAL_EMBEDDER: mode },
    fileText: mode === 'on' ? `tiers: { embed: [local/${model}] }` : null,
    fileName: 'gateway.yaml',
  });

/** Returns the status of a request, or null if the connection is refused. */
function statusOf(endpoint: Endpoint | null): Promise<number | null> {
  return fetch(`${endpoint?.url}/embeddings`).then(
    ({ status }) => status,
    () => null,
  );
}

test('says at startup that memory is searched by text until the local model is loaded', () => {
  const expected = 'by text until local/bge-small-en-v1.5 is loaded (the first time it is fetched, 150 MB)';
  expect(describeMemorySearch(configOf('on'), null)).toBe(expected);
  expect(describeMemorySearch(configOf('on'), 'by meaning')).toBe('by meaning');
  expect(describeMemorySearch(configOf('off'), null)).toBe('by text only: no embeddings are configured');
});

test('stops and starts the local embedder when the configuration changes', async () => {
  // The files cannot be downloaded, because there is no folder for them.
  const env = { XDG_CACHE_HOME: '/dev/null' };
  const logger = createLogger({ level: 'silent' });
  const embedder = createSharedLocalEmbedder({ env, logger, onChange: () => undefined, stopDelayMs: 0 });
  const first = await embedder.endpointFor(configOf('on'));
  expect(await statusOf(first)).toBe(503);
  expect(await embedder.endpointFor(configOf('off'))).toBe(null);
  await eventually(async () => expect(await statusOf(first)).toBe(null));
  const second = await embedder.endpointFor(configOf('on'));
  expect(await statusOf(second)).toBe(503);
  await embedder.stop();
  expect(await statusOf(second)).toBe(null);
});

test('starts a second local embedder if the configuration names another model', async () => {
  const env = { XDG_CACHE_HOME: '/dev/null' };
  const logger = createLogger({ level: 'silent' });
  const embedder = createSharedLocalEmbedder({ env, logger, onChange: () => undefined, stopDelayMs: 60_000 });
  const english = await embedder.endpointFor(configOf('on'));
  const multilingual = await embedder.endpointFor(configOf('on', 'multilingual-e5-small-q4'));
  expect(multilingual?.url).not.toBe(english?.url);
  // Running calls may still use the first one.
  expect(await statusOf(english)).toBe(503);
  expect(await embedder.endpointFor(configOf('on'))).toEqual(english);
  await embedder.stop();
  expect([await statusOf(english), await statusOf(multilingual)]).toEqual([null, null]);
});
