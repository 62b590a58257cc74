/**
 * Stands in for `docker compose` and `kubectl` in the commands of the documentation. It runs what they would run in a
 * container, with the files and environment of that container. For commands that manage containers it only checks the
 * names.
 *
 * node container-programs.ts <state file> docker|kubectl <arguments>
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface ContainerState {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Maps paths in the container to paths on this machine. */
  readonly paths: Readonly<Record<string, string>>;
  /** The port that replaces 8080. */
  readonly port?: string;
  /** The pid of process 1, or null if the container is not running. */
  readonly pid?: number | null;
  /** The program that `docker compose run` puts before its arguments. */
  readonly entrypoint: readonly string[];
}

/** Keyed by the service of docker-compose.yml, or by the pod. */
export type ContainerStates = Readonly<Record<string, ContainerState>>;

/** Command options that take a value. */
const optionsWithValue = ['--entrypoint', '--signal', '--namespace', '--selector', '--output'];

interface Parsed {
  readonly options: ReadonlyMap<string, string>;
  readonly rest: readonly string[];
}

/** Returns the options before the first argument that is not an option. */
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
    const state = states[name.replace(/^pod\//, '')];
    if (!state) throw new Error(`there is no container ${name}`);
    return state;
  };
  if (program === 'docker') {
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
      case 'kill':
        for (const service of rest) process.kill(find(service).pid ?? Number.NaN, `SIG${options.get('--signal')}`);
        return 0;
      case 'up':
      case 'logs':
      case 'ps':
        rest.map(find);
        return 0;
    }
  }
  if (program === 'kubectl') {
    const { rest } = parseOptions(args.slice(1));
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
        find(name);
        return 0;
    }
  }
  throw new Error(`${program} ${args.slice(0, 2).join(' ')} is not known here`);
}

function runIn({ cwd, env, paths, port = '8080', pid }: ContainerState, command: readonly string[]): number {
  const here = (text: string): string =>
    Object.entries(paths)
      .reduce((result, [path, actual]) => result.replace(new RegExp(`(?<![\\w.-])${path}(?![\\w-])`, 'g'), actual), text)
      .replace('127.0.0.1:8080', `127.0.0.1:${port}`)
      // Replace the pid, so that we never signal process 1 of this machine.
      .replace(/\bkill -HUP 1\b/, `kill -HUP ${pid}`);
  const [file = '', ...args] = command.map(here);
  const { status, error } = spawnSync(file, args, { cwd, env, stdio: 'inherit' });
  if (error) throw error;
  return status ?? 1;
}

if (import.meta.main) process.exitCode = main(process.argv.slice(2));
