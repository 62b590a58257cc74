/**
 * Reads docker-compose.yml like Docker Compose does, i.e. merges anchors and substitutes variables. Variables only come
 * from the caller.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root } from './gateway-process.ts';

export interface ComposeService {
  readonly image: string;
  readonly command?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly environment?: Readonly<Record<string, string | number | null>>;
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly networks?: readonly string[];
  readonly profiles?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: { readonly test?: readonly string[]; readonly disable?: boolean };
  readonly stop_grace_period?: string;
  readonly user?: string;
  readonly restart?: string;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly cap_add?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly logging?: { readonly options: Readonly<Record<string, string>> };
  readonly deploy?: { readonly resources: { readonly limits: Readonly<Record<'memory' | 'cpus' | 'pids', string | number>> } };
}

export interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly networks: Readonly<Record<string, unknown>>;
}

/** What an operator has to set in .env. */
export const composeSecrets = {
  GATEWAY_ADMIN_TOKEN: 'test-admin-token-0123456789',
  POSTGRES_PASSWORD: 'superuser-secret',
  GATEWAY_DB_PASSWORD: '6761746577617900',
  TEMPORAL_DB_PASSWORD: 'temporal-secret',
};

/** What the `observability` profile needs in .env, too. */
export const observabilitySecrets = { GRAFANA_ADMIN_PASSWORD: 'grafana-secret', GRAFANA_DB_PASSWORD: 'costs-secret' };

/** If a required variable is missing or empty, throws the same message as Compose. */
export function readCompose(variables: Readonly<Record<string, string>> = composeSecrets): ComposeFile {
  const text = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
  return substituteAll(parse(text, { merge: true }), variables) as ComposeFile;
}

export function serviceOf({ services }: ComposeFile, name: string): ComposeService {
  const service = services[name];
  if (!service) throw new Error(`docker-compose.yml has no service ${name}`);
  return service;
}

function substituteAll(value: unknown, variables: Readonly<Record<string, string>>): unknown {
  if (typeof value === 'string') return substitute(value, variables);
  if (Array.isArray(value)) return value.map((item) => substituteAll(item, variables));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, substituteAll(item, variables)]));
}

/**
 * Only supports what docker-compose.yml uses, which is `$$`, `${NAME:-default}` (even inside of another default) and
 * `${NAME:?message}`.
 */
function substitute(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replace(
    /\$(?:\$|\{(\w+):([-?])((?:[^{}]|\{[^}]*\})*)\})|\$/g,
    (whole, name: string | undefined, kind: string, rest: string) => {
      if (whole === '$$') return '$';
      if (name === undefined) throw new Error(`docker-compose.yml: a form of substitution that these tests do not know: ${text}`);
      const value = variables[name] ?? '';
      if (value === '' && kind === '?') throw new Error(`required variable ${name} is missing a value: ${rest}`);
      return value === '' ? substitute(rest, variables) : value;
    },
  );
}
