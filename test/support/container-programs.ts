/**
 * Replaces `docker compose` and `kubectl` when tests run the commands in the documentation. It runs what they would run
 * in a container, with the files and environment of that container. If a command manages containers, it only checks the
 * names.
 *
 * node container-programs.ts <state file> docker|kubectl <arguments>
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface ContainerState {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Paths in the container, and where they are on this machine. */
  readonly paths: Readonly<Record<string, string>>;
  /** The service listens on this port, where the commands in the documentation have 8080. */
  readonly port?: string;
  /** In the container, this process would have pid 1. Null if it isn't running. */
  readonly pid?: number | null;
  /** What `docker compose run` executes. The arguments of the command come after it. */
  readonly entrypoint: readonly string[];
}

/** By the name of the Compose service or pod. */
export type ContainerStates = Readonly<Record<string, ContainerState>>;

/** Command options that take a value. */
const optionsWithValue = ['--entrypoint', '--format', '--namespace', '--output', '--selector', '--since'];

interface Parsed {
  readonly options: ReadonlyMap<string, string>;
  readonly rest: readonly string[];
}

/** Returns all options before the first argument that isn't an option. */
function parseOptions(args: readonly string[]): Parsed {
  const options = new Map<string, string>();
  let index = 0;
  for (; args[index]?.startsWith('-'); index += 1) {
    const name = args[index] ?? '';
    if (optionsWithValue.includes(name)) index += 1;
    options.set(name, args[index] ?? '');
  }
  return { options, rest: args.slice(index) };
}

function main([stateFile = '', program = '', ...args]: readonly string[]): number {
  const states = JSON.parse(readFileSync(stateFile, 'utf8')) as ContainerStates;
  const find = (name: string): ContainerState => {
    const pod = name.replace(/^pod\//, '').replace(/^deployment\/(.+)$/, (_whole, deployment) => findPodOf(deployment));
    const state = states[pod];
    if (!state) throw new Error(`there is no container ${name}`);
    return state;
  };
  const findPodOf = (app: string): string => Object.keys(states).find((name) => name.startsWith(`${app}-`)) ?? app;
  if (program === 'docker') {
    if (args[0] === 'inspect') {
      parseOptions(args.slice(1)).rest.map(find);
      return 0;
    }
    if (args[0] !== 'compose') throw new Error(`docker ${args[0]} is not known here`);
    const { options, rest } = parseOptions(args.slice(2));
    const [name = '', ...command] = rest;
    switch (args[1]) {
      case 'exec':
        return runIn(find(name), command);
      case 'run': {
        const entrypoint = options.get('--entrypoint');
        return runIn({ ...find(name), pid: null }, [...(entrypoint === undefined ? find(name).entrypoint : [entrypoint]), ...command]);
      }
      case 'up':
      case 'logs':
      case 'ps':
        rest.map(find);
        if (options.has('--quiet')) process.stdout.write(`${rest.join('\n')}\n`);
        return 0;
    }
  }
  if (program === 'kubectl') {
    const { options, rest } = parseOptions(args.slice(1));
    const [name = '', separator, ...command] = rest;
    switch (args[0]) {
      case 'exec':
        if (separator !== '--') throw new Error('kubectl exec needs -- before the command');
        return runIn(find(name), command);
      case 'get':
        for (const pod of Object.keys(states).filter((each) => /^gateway-(?:0|worker-.+)$/.test(each)))
          process.stdout.write(`pod/${pod}\n`);
        return 0;
      case 'logs':
        find(name || findPodOf(options.get('--selector')?.replace('app=', '') ?? ''));
        return 0;
      case 'delete':
      case 'describe':
        if (name !== 'pod') throw new Error(`kubectl ${args[0]} ${name} is not known here`);
        find(separator ?? '');
        return 0;
      case 'rollout':
        find(separator ?? '');
        return 0;
      case 'run': {
        // The documented address of Temporal only exists in a cluster.
        const { rest: program } = parseOptions(rest.slice(1));
        const at = program.indexOf('--address');
        return runIn(find('temporal-namespace'), at < 0 ? program : program.slice(0, at));
      }
    }
  }
  throw new Error(`${program} ${args.slice(0, 2).join(' ')} is not known here`);
}

function runIn({ cwd, env, paths, port = '8080', pid }: ContainerState, command: readonly string[]): number {
  const here = (text: string): string =>
    Object.entries(paths)
      .reduce((result, [path, actual]) => result.replace(new RegExp(`(?<![\\w.-])${path}(?![\\w-])`, 'g'), actual), text)
      .replace('127.0.0.1:8080', `127.0.0.1:${port}`)
      .replace('127.0.0.1:9464', env.GATEWAY_METRICS_ADDRESS ?? '')
      // Outside of a container, pid 1 would be the init process of this machine.
      .replace(/\bkill -HUP 1\b/, `kill -HUP ${pid}`);
  const [file = '', ...args] = command.map(here);
  const { status, error } = spawnSync(file, args, { cwd, env, stdio: 'inherit' });
  if (error) throw error;
  return status ?? 1;
}

if (import.meta.main) process.exitCode = main(process.argv.slice(2));
