/** The tokens of the provisioning routes: configured, or one created at the first start and stored in the data directory. */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject } from '../core/json/narrow.ts';
import { type Environment, type EnvironmentSettings, splitTokens } from './environment.ts';
import { adminTokensMessage, adminTokensPattern } from './file-schema.ts';
import { withSecretFiles } from './secret-files.ts';
import { parseYamlFile } from './yaml-file.ts';

const tokenFileName = 'admin-token';

/** Returns the configured tokens, else the data directory's. Of several processes that start at once, the first writes it and the others read. */
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
    // Also empty, after a crash or a full disk at the first start: every request would be rejected.
    if (!adminTokensPattern.test(text.trim())) throw new Error(`${file} ${adminTokensMessage}. Delete it to have one created`);
    return splitTokens(text);
  }
}

/** The tokens for commands, which send the first: of the environment, else of gateway.yaml, else of the data directory. Empty: there is none. */
export async function findAdminTokens(env: Environment, { adminTokens, server }: EnvironmentSettings): Promise<readonly string[]> {
  if (adminTokens.length > 0) return adminTokens;
  const configured = await readConfiguredAdminTokens(env);
  if (configured.length > 0) return configured;
  return splitTokens(await readFile(join(server.dataDir, tokenFileName), 'utf8').catch(() => '')); // Absent or unreadable: no token from here.
}

/** The tokens in gateway.yaml, for commands on the same machine. Empty when absent or malformed; errors elsewhere in the file do not matter. */
async function readConfiguredAdminTokens(env: Environment): Promise<readonly string[]> {
  const fileName = env.GATEWAY_CONFIG?.trim() || 'gateway.yaml';
  const text = await readFile(fileName, 'utf8').catch(() => ''); // A missing file has no token.
  const { value } = parseYamlFile(text, { fileName, env: withSecretFiles(env, [], text) }, []);
  const tokens = isObject(value) ? value.admin_token : null;
  return typeof tokens === 'string' && adminTokensPattern.test(tokens.trim()) ? splitTokens(tokens) : [];
}
