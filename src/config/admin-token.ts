/** The token of the provisioning routes: configured, or created at the first start and stored in the data directory. */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject } from '../core/json/narrow.ts';
import type { Environment, EnvironmentSettings } from './environment.ts';
import { adminTokenPattern } from './file-schema.ts';
import { parseYamlFile } from './yaml-file.ts';

const tokenFileName = 'admin-token';

/** Returns the configured token, else the data directory's. Of several processes that start at once, the first writes it and the others read. */
export async function readOrCreateAdminToken(configured: string | null, dataDir: string): Promise<string> {
  if (configured !== null) return configured;
  const file = join(dataDir, tokenFileName);
  const token = randomBytes(32).toString('base64url');
  try {
    await writeFile(file, `${token}\n`, { mode: 0o600, flag: 'wx' });
    return token;
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    return (await readFile(file, 'utf8')).trim();
  }
}

/** The token for commands: of the environment, else of gateway.yaml, else of the data directory. Null when there is none. */
export async function findAdminToken(env: Environment, { adminToken, server }: EnvironmentSettings): Promise<string | null> {
  return adminToken ?? (await readConfiguredAdminToken(env)) ?? (await readFirstLine(join(server.dataDir, tokenFileName)));
}

/** The token in gateway.yaml, for commands on the same machine. Null when absent or malformed; errors elsewhere in the file do not matter. */
async function readConfiguredAdminToken(env: Environment): Promise<string | null> {
  const fileName = env.GATEWAY_CONFIG?.trim() || 'gateway.yaml';
  const text = await readFile(fileName, 'utf8').catch(() => ''); // A missing file has no token.
  const { value } = parseYamlFile(text, fileName, env, []);
  const token = isObject(value) ? value.admin_token : null;
  return typeof token === 'string' && adminTokenPattern.test(token) ? token : null;
}

async function readFirstLine(file: string): Promise<string | null> {
  const text = await readFile(file, 'utf8').catch(() => null); // Absent or unreadable: no token from here.
  return text?.split('\n', 1)[0]?.trim() || null;
}
