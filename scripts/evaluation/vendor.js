/** The models of the user: a private gateway with the configuration and the vendor keys that `npm start` would use here. */
import { loadConfig, readConfigSource } from '../../src/config/load.ts';
import { adminToken, createKey, createPrograms } from '../programs.js';

/** For one call, with the gateway's own retries. */
const callTimeoutMs = 300_000;

/** @typedef {{ text: string, recalled: number }} Answer */
/** @typedef {ReturnType<typeof createClient>} Client */
/** @typedef {Awaited<ReturnType<typeof startVendor>>} Vendor */

/** The configuration of this folder and environment. Throws when it names no vendor. */
export function readVendorConfig() {
  const config = loadConfig(readConfigSource(process.env, 'start'));
  if (config.demo) throw new Error('no vendor: set OPENAI_API_KEY or ANTHROPIC_API_KEY, or write providers into gateway.yaml');
  return {
    /**
     * The first of the tiers that has a chain.
     * @param {readonly string[]} tiers
     */
    chooseTier: (tiers) => tiers.find((tier) => (config.tiers[tier] ?? []).length > 0) ?? null,
    /** The models that a tier names, or the model itself. @param {string} model */
    resolve: (model) => config.tiers[model] ?? [model],
    /** Price of the first model of a tier, or of a model. @param {string} model */
    priceOf: (model) => config.models[config.tiers[model]?.[0] ?? model]?.price ?? null,
  };
}

/** @typedef {{ dataDir: string, project: string, temporal?: boolean, env?: NodeJS.ProcessEnv }} VendorOptions */
/** @typedef {(options: VendorOptions) => Promise<Vendor>} StartVendor starts the gateway, which ends with the evaluation */

/**
 * Runs an evaluation, whose result is the exit status of this process; 2 when it fails.
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
  // Not the database and the Temporal server of the user's service.
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

/**
 * Calls a gateway with a key of a project.
 * @param {{ url: string, key: string, adminToken: string }} gateway
 */
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
  /** Spend of the key's project in this month, in dollars. */
  const readSpend = async () => /** @type {number} */ ((await send('GET', '/usage/me', key, undefined)).body.spend);
  return {
    /** @param {string} path @param {unknown} body */
    call: async (path, body) => (await send('POST', path, key, body)).body,
    /** @param {string} method @param {string} path @param {unknown} [body] */
    admin: async (method, path, body) => (await send(method, path, token, body)).body,
    readSpend,
    /**
     * A chat completion: its text, and how many memories recall put into its prompt. By default memory takes no part in the call.
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
