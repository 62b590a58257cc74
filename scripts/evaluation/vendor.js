/**
 * Runs a private gateway with the user's models for evaluations. It has the configuration and vendor keys that `npm
 * start` would use in this folder.
 */
import { loadConfig, readConfigSource } from '../../src/config/load.ts';
import { adminToken, createKey, createPrograms } from '../programs.js';

/** Includes the gateway's own retries. */
const callTimeoutMs = 300_000;

/** @typedef {{ text: string, recalled: number }} Answer */
/** @typedef {ReturnType<typeof createClient>} Client */
/** @typedef {Awaited<ReturnType<typeof startVendor>>} Vendor */

/** Reads the configuration in this folder and environment. Throws if it has no vendor. */
export function readVendorConfig() {
  const config = loadConfig(readConfigSource(process.env, 'start'));
  if (config.demo) throw new Error('no vendor: set OPENAI_API_KEY or ANTHROPIC_API_KEY, or write providers into gateway.yaml');
  return {
    /**
     * Returns the first of these tiers that has a model.
     * @param {readonly string[]} tiers
     */
    chooseTier: (tiers) => tiers.find((tier) => (config.tiers[tier] ?? []).length > 0) ?? null,
    /**
     * Returns the models of a tier, or the name itself if it's a model.
     * @param {string} model
     */
    resolve: (model) => config.tiers[model] ?? [model],
    /** Returns the price of a model, or of the first model of a tier. @param {string} model */
    priceOf: (model) => config.models[config.tiers[model]?.[0] ?? model]?.price ?? null,
  };
}

/** @typedef {{ dataDir: string, project: string, temporal?: boolean, env?: NodeJS.ProcessEnv }} VendorOptions */
/**
 * @typedef {(options: VendorOptions) => Promise<Vendor>} StartVendor starts the gateway, which stops when the
 * evaluation ends
 */

/**
 * Runs an evaluation and exits with the status that it returns, or with 2 if it throws.
 * @param {(startVendor: StartVendor) => Promise<number>} evaluate
 */
export async function runWithVendor(evaluate) {
  /** @type {Vendor[]} */
  const started = [];
  try {
    process.exitCode = await evaluate(async (options) => {
      const vendor = await startVendor(options);
      started.push(vendor);
      return vendor;
    });
  } catch (error) {
    console.error(/** @type {Error} */ (error).message);
    process.exitCode = 2;
  } finally {
    for (const vendor of started) await vendor.stop();
  }
}

/** @param {VendorOptions} options */
async function startVendor({ dataDir, project, temporal = false, env = {} }) {
  const programs = createPrograms();
  // Keep the evaluation away from the database and Temporal server of the user's own service.
  const own = {
    DATABASE_URL: undefined,
    TEMPORAL_ADDRESS: undefined,
    GATEWAY_DATA_DIR: dataDir,
    GATEWAY_TEMPORAL: temporal ? 'on' : 'off',
  };
  const { url } = await programs.start('start', { env: { ...own, ...env } });
  /** @param {string} slug */
  const connect = async (slug) => createClient({ url, key: await createKey(url, slug), adminToken });
  return { ...(await connect(project)), connect, stop: () => programs.stopAll() };
}

/** @param {{ url: string, key: string, adminToken: string }} gateway */
export function createClient({ url, key, adminToken: token }) {
  /** @param {string} method @param {string} path @param {string} authorization @param {unknown} body @param {Record<string, string>} [headers] */
  const send = async (method, path, authorization, body, headers = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${authorization}`, 'content-type': 'application/json', ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(callTimeoutMs),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
    return { body: text === '' ? null : JSON.parse(text), recalled: response.headers.get('x-gateway-memory-recalled') };
  };
  const readSpend = async () => /** @type {number} */ ((await send('GET', '/usage/me', key, undefined)).body.spend);
  return {
    /** @param {string} path @param {unknown} body */
    call: async (path, body) => (await send('POST', path, key, body)).body,
    /** @param {string} method @param {string} path @param {unknown} [body] */
    admin: async (method, path, body) => (await send(method, path, token, body)).body,
    readSpend,
    /**
     * Requests a chat completion. Memory is off unless you pass other headers. Returns the text and how many memories
     * recall has inserted into the prompt.
     * @param {Record<string, unknown>} body
     * @param {Record<string, string>} [headers]
     * @returns {Promise<Answer>}
     */
    async complete(body, headers = { 'x-gateway-memory': 'off' }) {
      const response = await send('POST', '/v1/chat/completions', key, body, headers);
      return { text: response.body.choices[0]?.message.content ?? '', recalled: response.recalled?.split(',').length ?? 0 };
    },
  };
}
