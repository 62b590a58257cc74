/** A scripted vendor for media tests, and a gateway that uses it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll } from '@jest/globals';
import type { TestGateway } from '../support/gateway.ts';
import { shareGateway } from '../support/gateway.ts';

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export type Answerer = (response: ServerResponse, asked: Asked) => unknown;

export interface ListeningVendor {
  readonly url: string;
  readonly asked: readonly Asked[];
  /** The number of connections, including those without a request. */
  connections(): number;
}

export const vendorKey = 'sk-vendor-key-0123456789';

/** Uses the gateway and vendor of a test. */
type Use = (gateway: TestGateway, vendor: ListeningVendor) => Promise<void>;

export interface SharedVendor {
  /** Runs work with the shared gateway and a separate project while the vendor uses this responder. */
  withVendor(answer: Answerer, use: Use): Promise<void>;
  /** Does the same with a responder for the asset host. */
  withAssets(
    assets: Answerer,
    answer: Answerer,
    use: (...lent: [...Parameters<Use>, assets: ListeningVendor]) => Promise<void>,
  ): Promise<void>;
}

/**
 * One gateway for all tests of a file. All its providers use that vendor: `own` uses the standard formats, `files` has
 * an asset host, `jobs` and `hasty` use artifacts, `hasty` with a timeout of half a second, and `path` and `query` have
 * voices.
 */
export function shareVendor(): SharedVendor {
  const nobody: Answerer = (response) => response.end();
  const vendor = createListener();
  const assets = createListener();
  beforeAll(() => Promise.all([vendor.listen(), assets.listen()]));
  const lent = shareGateway({
    database: 'any',
    yaml: () => `
providers:
  own: { base_url: ${vendor.url}/v1, api_key: ${vendorKey}, dialect: chat }
  files: { base_url: ${vendor.url}/v1, api_key: ${vendorKey}, dialect: chat, asset_hosts: ["${assets.url.replace('http://', '')}"] }
  jobs: { base_url: ${vendor.url}/v1, api_key: ${vendorKey}, dialect: chat, serves: [images], image_shape: artifacts }
  path: { base_url: ${vendor.url}/v1, api_key: ${vendorKey}, dialect: chat, serves: [speech], speech_shape: voice }
  query: { base_url: ${vendor.url}/v1, api_key: ${vendorKey}, dialect: chat, serves: [speech], speech_shape: voice, speech: { voice_in: query } }
  hasty: { base_url: ${vendor.url}/v1, api_key: ${vendorKey}, dialect: chat, serves: [images], image_shape: artifacts, first_byte_timeout_ms: 500 }
models:
  own/picture: { per_image: 0.04 }
  jobs/picture: { per_image: 0.04 }
  own/voice: { per_million_characters: 15 }
  own/gpt-image-2: { kind: images, input: 5, output: 30 }
  own/drawn: { kind: images, input: 5, output: 30, takes: [quality, output_format, user, seed] }
  own/dalle: { per_image: 0.04, takes: [response_format, style] }
  own/talk: { per_million_characters: 15, takes: [speed, instructions] }
`,
  });
  afterAll(() => Promise.all([vendor.close(), assets.close()]));
  let count = 0;
  const withAssets: SharedVendor['withAssets'] = async (assetAnswer, answer, use) => {
    count += 1;
    const gateway = await lent().withProject(`vendor-${count}`);
    vendor.reset(answer);
    assets.reset(assetAnswer);
    await use(gateway, vendor, assets);
  };
  return { withVendor: (answer, use) => withAssets(nobody, answer, use), withAssets };
}

/** Starts a server on loopback that uses the latest responder. */
function createListener() {
  let asked: Asked[] = [];
  let connections = 0;
  let url = '';
  let answer: Answerer = (response) => response.end();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url: path = '', headers } = request;
      const received = { method, path, headers, body: Buffer.concat(chunks).toString() };
      asked.push(received);
      answer(response, received);
    });
  });
  server.on('connection', () => {
    connections += 1;
  });
  return {
    get url() {
      return url;
    },
    get asked() {
      return asked;
    },
    connections: () => connections,
    async listen() {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      url = `http://127.0.0.1:${port}`;
    },
    reset(next: Answerer) {
      answer = next;
      asked = [];
      connections = 0;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Starts a server on loopback. */
export async function withListener<Result>(answer: Answerer, use: (vendor: ListeningVendor) => Promise<Result>): Promise<Result> {
  const listener = createListener();
  await listener.listen();
  listener.reset(answer);
  try {
    return await use(listener);
  } finally {
    await listener.close();
  }
}
