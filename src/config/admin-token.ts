/**
 * Finds the tokens for the provisioning routes. If none are configured, we create one when the gateway first starts,
 * and store it in the data directory.
 */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject } from '../core/json/narrow.ts';
import { type Environment, type EnvironmentSettings, splitTokens } from './environment.ts';
import { adminTokensMessage, adminTokensPattern } from './file-schema.ts';
import { withSecretFiles } from './secret-files.ts';
import { parseYamlFile } from './yaml-file.ts';

const tokenFileName = 'admin-token';

/**
 * Returns the configured tokens. Without any, returns the token in the data directory, and creates it on the first
 * start. When several processes start at the same time, one of them writes the file and the others read it.
 */
export async function readOrCreateAdminTokens(configured: readonly string[], dataDir: string): Promise<readonly string[]> {
  if (configured.length > 0) return configured;
  const file = join(dataDir, tokenFileName);
  const token = randomBytes(32).toString('base64url');
  try {
    await writeFile(file, `${token}\n`, { mode: 0o600, flag: 'wx' });
    return [token];
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    const text = await readFile(file, 'utf8');
    // A crash or a full disk may have left an empty file behind. Don't continue without a token, because every request
    // would be rejected.
    if (!adminTokensPattern.test(text.trim()))
      throw new Error(`the admin token in ${file} ${adminTokensMessage}. Delete the file to create a new token at the next start`);
    return splitTokens(text);
  }
}

/**
 * Finds the admin tokens that are configured. Commands send the first one. The environment comes first, then
 * gateway.yaml, then the data directory. Returns an empty list if none of them has a token.
 */
export async function findAdminTokens(env: Environment, { adminTokens, server }: EnvironmentSettings): Promise<readonly string[]> {
  if (adminTokens.length > 0) return adminTokens;
  const configured = await readConfiguredAdminTokens(env);
  if (configured.length > 0) return configured;
  return splitTokens(await readFile(join(server.dataDir, tokenFileName), 'utf8').catch(() => ''));
}

/**
 * Reads the tokens from gateway.yaml, for commands on the same machine. Returns an empty list if they're missing or
 * malformed. Other errors in the file don't matter to commands.
 */
async function readConfiguredAdminTokens(env: Environment): Promise<readonly string[]> {
  const fileName = env.GATEWAY_CONFIG?.trim() || 'gateway.yaml';
  const text = await readFile(fileName, 'utf8').catch(() => ''); // A missing file is like an empty one.
  const { value } = parseYamlFile(text, { fileName, env: withSecretFiles(env, [], text) }, []);
  const tokens = isObject(value) ? value.admin_token : null;
  return typeof tokens === 'string' && adminTokensPattern.test(tokens.trim()) ? splitTokens(tokens) : [];
}
