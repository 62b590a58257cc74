/**
 * Reads secrets from files, as mounted by Docker and Kubernetes. `NAME_FILE` is the name of the file that contains the
 * value of `NAME`. We read the files again at every reload, so that a secret can change while the process runs, which
 * isn't possible with environment variables.
 */
import { readFileSync } from 'node:fs';
import { errorMessage } from '../core/error-messages.ts';
import type { Environment } from './environment.ts';
import { variables } from './variables.ts';
import { environmentReferences } from './yaml-file.ts';

const secretVariables = Object.entries(variables).flatMap(([name, variable]) => (variable.type === 'secret' ? [name] : []));

/** The only secret that can have several lines, because there are two tokens during a rotation. */
const multiline = 'GATEWAY_ADMIN_TOKEN';

export interface SecretFiles {
  /** Maps the names of variables to their values. */
  readonly values: Readonly<Record<string, string>>;
  readonly errors: readonly string[];
}

export const noSecretFiles: SecretFiles = { values: {}, errors: [] };

/**
 * Reads the files of the secret variables, and of the variables that gateway.yaml substitutes. The errors don't quote
 * any values.
 */
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
    if (text instanceof Error) errors.push(`${name}_FILE: ${file} cannot be read: ${errorMessage(text)}`);
    else if (text === '') errors.push(`${name}_FILE: ${file} is empty`);
    else if (name !== multiline && /[\r\n]/.test(text)) errors.push(`${name}_FILE: ${file} must contain a single line`);
    else values[name] = text;
  }
  return { values, errors };
}

/**
 * Returns the environment together with the values of its secret files, for commands that don't reload. Adds errors in
 * the files to `errors`.
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
