/** The models of the user: a private gateway with the configuration and the vendor keys that `npm start` would use here. */
import { loadConfig, readConfigSource } from '../../src/config/load.ts';
import { adminToken, createKey, createPrograms } from '../programs.js';

/** For one call, with the gateway's own retries. */
const callTimeoutMs = 300_000;

/** @typedef {{ text: string, cost: number }} Answer cost in dollars */
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

/**
 * Starts the gateway. The caller ends it with `stop`.
 * @param {{ dataDir: string, project: string, temporal?: boolean, env?: NodeJS.ProcessEnv }} options
 */
export async function startVendor({ dataDir, project, temporal = false, env = {} }) {
  const programs = createPrograms();
  // Not the database and the Temporal server of the user's service.
  const own = {
    DATABASE_URL: undefined,
    TEMPORAL_ADDRESS: undefined,
    GATEWAY_DATA_DIR: dataDir,
    GATEWAY_TEMPORAL: temporal ? 'on' : 'off',
  };
  const { url } = await programs.start('start', { env: { ...own, ...env } });
  const key = await createKey(url, project);
  return { ...createClient({ url, key, adminToken }), stop: () => programs.stopAll() };
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
    return text === '' ? null : JSON.parse(text);
  };
  /** Spend of the key's project in this month, in dollars. */
  const readSpend = async () => /** @type {number} */ ((await send('GET', '/usage/me', key, undefined)).spend);
  return {
    /** @param {string} path @param {unknown} body */
    call: (path, body) => send('POST', path, key, body),
    /** @param {string} method @param {string} path @param {unknown} [body] */
    admin: (method, path, body) => send(method, path, token, body),
    readSpend,
    /**
     * The text of a chat completion. By default memory takes no part in the call.
     * @param {Record<string, unknown>} body
     * @param {Record<string, string>} [headers]
     * @returns {Promise<string>}
     */
    async complete(body, headers = { 'x-gateway-memory': 'off' }) {
      const { choices } = await send('POST', '/v1/chat/completions', key, body, headers);
      return choices[0]?.message.content ?? '';
    },
  };
}
