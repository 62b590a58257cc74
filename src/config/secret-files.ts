/**
 * Secrets in files, as Docker and Kubernetes mount them: `NAME_FILE` names the file that holds the value of `NAME`. Files are read again at each
 * reload, so a secret can change while the process runs; the environment of a process cannot.
 */
import { readFileSync } from 'node:fs';
import { errorMessage } from '../core/error-messages.ts';
import type { Environment } from './environment.ts';
import { variables } from './variables.ts';
import { environmentReferences } from './yaml-file.ts';

const secretVariables = Object.entries(variables).flatMap(([name, variable]) => (variable.type === 'secret' ? [name] : []));

/** The only one that may have several lines: both tokens of a rotation. */
const multiline = 'GATEWAY_ADMIN_TOKEN';

export interface SecretFiles {
  /** Values by the name of their variable. */
  readonly values: Readonly<Record<string, string>>;
  readonly errors: readonly string[];
}

export const noSecretFiles: SecretFiles = { values: {}, errors: [] };

/** Reads the files of the secret variables, and of those that the text of gateway.yaml substitutes. Errors do not quote a value. */
export function readSecretFiles(env: Environment, fileText: string | null): SecretFiles {
  const values: Record<string, string> = {};
  const errors: string[] = [];
  for (const name of new Set([...secretVariables, ...environmentReferences(fileText ?? '')])) {
    const file = env[`${name}_FILE`]?.trim();
    if (!file) continue;
    if (env[name]?.trim()) {
      errors.push(`${name}, ${name}_FILE: set one of them`);
      continue;
    }
    const text = readText(file);
    if (text instanceof Error) errors.push(`${name}_FILE: ${file} cannot be read: ${errorMessage(text)}`);
    else if (text === '') errors.push(`${name}_FILE: ${file} is empty`);
    else if (name !== multiline && /[\r\n]/.test(text)) errors.push(`${name}_FILE: ${file} must hold one line`);
    else values[name] = text;
  }
  return { values, errors };
}

/** The environment with the values of its secret files; for commands that do not reload. Adds the files' errors to `errors`. */
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
