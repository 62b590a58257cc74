/**
 * Reads secrets from files, as mounted by Docker and Kubernetes. To read `NAME` from a file, set `NAME_FILE` to its
 * path. Unlike environment variables, files can change while the process runs, so they're read again at every reload.
 */
import { readFileSync } from 'node:fs';
import { errorMessage } from '../core/error-messages.ts';
import type { Environment } from './environment.ts';
import { variables } from './variables.ts';
import { environmentReferences } from './yaml-file.ts';

const secretVariables = Object.entries(variables).flatMap(([name, variable]) => (variable.type === 'secret' ? [name] : []));

/** The only secret that can have more than one line. During a rotation, the file contains two admin tokens. */
const multiline = 'GATEWAY_ADMIN_TOKEN';

export interface SecretFiles {
  readonly values: Readonly<Record<string, string>>;
  readonly errors: readonly string[];
}

export const noSecretFiles: SecretFiles = { values: {}, errors: [] };

/** Reads the files of secret variables and of variables that gateway.yaml refers to. Errors never contain a value. */
export function readSecretFiles(env: Environment, fileText: string | null): SecretFiles {
  const values: Record<string, string> = {};
  const errors: string[] = [];
  for (const name of new Set([...secretVariables, ...environmentReferences(fileText ?? '')])) {
    const file = env[`${name}_FILE`]?.trim();
    if (!file) continue;
    if (env[name]?.trim()) {
      errors.push(`${name}, ${name}_FILE: set only one of them`);
      continue;
    }
    const text = readText(file);
    if (text instanceof Error) errors.push(`${name}_FILE: cannot read ${file}: ${errorMessage(text)}`);
    else if (text === '') errors.push(`${name}_FILE: ${file} is empty`);
    else if (name !== multiline && /[\r\n]/.test(text)) errors.push(`${name}_FILE: ${file} must contain a single line`);
    else values[name] = text;
  }
  return { values, errors };
}

/**
 * Returns the environment together with the values from secret files. This is meant for commands, because the result
 * doesn't change on a reload. Errors in the files are added to `errors`.
 */
export function withSecretFiles(env: Environment, errors: string[] = [], fileText: string | null = null): Environment {
  const secrets = readSecretFiles(env, fileText);
  errors.push(...secrets.errors);
  return { ...env, ...secrets.values };
}

function readText(file: string): string | Error {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}
