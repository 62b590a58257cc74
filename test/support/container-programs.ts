/**
 * Replaces `docker compose` and `kubectl` when tests run the commands in the documentation. It runs what they would run
 * in a container, with the files and environment of that container. If a command manages containers, it only checks the
 * names.
 *
 * Both programs are shell scripts that send their arguments to this process and execute the shell commands that it
 * returns. Tests run about a hundred commands, and starting Node for each of them would take a lot of CPU time.
 */
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';

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

/**
 * Puts the programs `docker` and `kubectl` into a folder. They work until the result is called. `readStates` returns
 * what the containers currently look like.
 */
export async function installContainerPrograms(folder: string, readStates: () => ContainerStates): Promise<() => Promise<void>> {
  const server = createServer((socket) => {
    let received = '';
    socket.setEncoding('utf8').on('data', (text: string) => {
      received += text;
      const [count = '', ...args] = received.split('\0').slice(0, -1);
      if (count !== '' && args.length === Number(count) + 1) socket.end(scriptFor(args, readStates()));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await mkdir(folder, { recursive: true });
  for (const program of ['docker', 'kubectl']) await writeFile(join(folder, program), standIn(program, port), { mode: 0o755 });
  return async () => {
    server.close();
    await once(server, 'close');
  };
}

/** Returns a script that sends the number of its arguments, its name and its arguments, each with a zero at the end. */
function standIn(program: string, port: number): string {
  return `#!/bin/bash
set -eu
exec 3<>/dev/tcp/127.0.0.1/${port}
printf '%s\\0' "$#" ${program} "$@" >&3
IFS= read -rd '' script <&3 || [ -n "$script" ]
exec 3>&-
eval "$script"
`;
}

function scriptFor(args: readonly string[], states: ContainerStates): string {
  try {
    return toScript(args, states);
  } catch (error) {
    return `echo ${quote(String(error))} >&2; exit 1`;
  }
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function print(lines: readonly string[]): string {
  return `printf '%s\\n' ${lines.map(quote).join(' ')}`;
}

/** A shell command that does nothing. */
const nothing = ':';

function toScript([program = '', ...args]: readonly string[], states: ContainerStates): string {
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
      return nothing;
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
        return options.has('--quiet') ? print(rest) : nothing;
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
        return print(
          Object.keys(states)
            .filter((pod) => /^gateway-(?:0|worker-.+)$/.test(pod))
            .map((pod) => `pod/${pod}`),
        );
      case 'logs':
        find(name || findPodOf(options.get('--selector')?.replace('app=', '') ?? ''));
        return nothing;
      case 'delete':
      case 'describe':
        if (name !== 'pod') throw new Error(`kubectl ${args[0]} ${name} is not known here`);
        find(separator ?? '');
        return nothing;
      case 'rollout':
        find(separator ?? '');
        return nothing;
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

function runIn({ cwd, env, paths, port = '8080', pid }: ContainerState, command: readonly string[]): string {
  const here = (text: string): string =>
    Object.entries(paths)
      .reduce((result, [path, actual]) => result.replace(new RegExp(`(?<![\\w.-])${path}(?![\\w-])`, 'g'), actual), text)
      .replace('127.0.0.1:8080', `127.0.0.1:${port}`)
      .replace('127.0.0.1:9464', env.GATEWAY_METRICS_ADDRESS ?? '')
      // Outside of a container, pid 1 would be the init process of this machine.
      .replace(/\bkill -HUP 1\b/, `kill -HUP ${pid}`);
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  return `cd ${quote(cwd)}; exec env -i ${[...variables, ...command.map(here)].map(quote).join(' ')}`;
}
