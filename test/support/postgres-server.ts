/**
 * Runs a private PostgreSQL cluster for one test run, in a temporary folder, on a free port of 127.0.0.1 and a Unix
 * socket.
 *
 * A shell starts the server and then waits for the end of its input, which is a pipe to this process. If the tests end
 * for any reason, even with kill -9, the pipe closes and the shell stops the server and removes the folder.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { run } from './run.ts';
import { unusedPort } from './unused-port.ts';

const START_LIMIT_MS = 120_000;
const STOP_LIMIT_MS = 60_000;

/** A running server. `url` is the administrator's address for the database `postgres`. */
export interface PostgresServer {
  url: string;
  stop(): Promise<void>;
  /** Sends SIGKILL to all processes of the server. */
  kill(): Promise<void>;
  /** Call this after `kill`. Restarts the server at the same address and waits until it accepts queries. */
  restart(): Promise<void>;
}

export interface PostgresServerOptions {
  /** If true, commits survive `kill`. */
  readonly keepsCommits?: boolean;
  /** PostgreSQL's `shared_buffers`. Tests don't need more than the default of 64 MB. */
  readonly sharedBuffers?: string;
}

/** Starts the server whose programs are in the folder `bin`. */
export async function startPostgres(
  bin: string,
  { keepsCommits = false, sharedBuffers = '64MB' }: PostgresServerOptions = {},
): Promise<PostgresServer> {
  const home = await mkdtemp(join(tmpdir(), 'gateway-pg-'));
  const owner = await serverOwner();
  if (owner !== null) await chown(home, owner.uid, owner.gid);
  const data = join(home, 'data');
  const initialize = ['--pgdata', data, '--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'];
  await run(join(bin, 'initdb'), initialize, { ...owner, cwd: home });
  await writeFile(join(data, 'postgresql.auto.conf'), settings(home, keepsCommits, sharedBuffers));

  const port = await unusedPort();
  const logFile = join(home, 'log');
  const guard = spawn('/bin/sh', ['-c', GUARD, 'guard', join(bin, 'postgres'), data, String(port), logFile, home], {
    ...owner,
    cwd: home,
    // Use a separate session, so that Ctrl-C in the terminal only reaches the tests. They close the pipe.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const stop = async () => {
    await stopGuard(guard);
    await rm(home, { recursive: true, force: true });
  };
  try {
    await untilReady(guard, bin, port);
  } catch (error) {
    const log = await readFile(logFile, 'utf8').catch(() => '');
    await stop();
    throw new Error(`PostgreSQL did not start: ${log.trim().split('\n').slice(-3).join(' | ')}`, { cause: error });
  }
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    stop,
    async kill() {
      await writeFile(join(home, 'down'), '');
      for (const pid of await pidsOf(data)) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // The server has ended in the meantime.
        }
      }
    },
    async restart() {
      await writeFile(join(home, 'up'), '');
      await rm(join(home, 'down'));
      await untilReady(guard, bin, port);
    },
  };
}

/** Returns the pid of the server, followed by the pids of its child processes. */
async function pidsOf(data: string): Promise<number[]> {
  const [pid = ''] = (await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n', 1);
  const children = await run('pgrep', ['-P', pid]);
  return [pid, ...children.trim().split('\n')].map(Number);
}

/**
 * The arguments are $1 postgres, $2 data, $3 port, $4 log and $5 home. When the pipe closes, `read` returns, and we ask
 * PostgreSQL for a fast shutdown with SIGINT. A server that is just starting ignores the signal, so we repeat it. If
 * somebody kills the server, we start it again as soon as the file `down` is gone and the file `up` exists.
 */
const GUARD = `
exec 3<&0
ending=
server=
trap 'ending=yes; kill -INT $server 2>/dev/null' TERM
( read -r _ <&3; kill $$ ) &
reader=$!
while :; do
  "$1" -D "$2" -p "$3" >>"$4" 2>&1 <&- 3<&- &
  server=$!
  [ "$ending" ] || wait $server
  while [ "$ending" ] && kill -INT $server 2>/dev/null; do sleep 0.1; done
  while [ -e "$5/down" ] && [ ! "$ending" ]; do sleep 0.05; done
  [ -e "$5/up" ] || break
  rm "$5/up"
done
kill $reader 2>/dev/null
rm -rf "$5"
`;

/**
 * Returns the server's configuration. There's no test that simulates a power failure, so we turn off syncing to disk.
 */
function settings(home: string, keepsCommits: boolean, sharedBuffers: string): string {
  return `listen_addresses = '127.0.0.1'
unix_socket_directories = '${home}'
fsync = off
synchronous_commit = ${keepsCommits ? 'on' : 'off'}
full_page_writes = off
max_connections = 400
shared_buffers = ${sharedBuffers}
`;
}

/**
 * Returns the user who runs the server. PostgreSQL refuses to run as root, so root uses Debian's user `postgres`. Null
 * stands for the user who runs the tests.
 */
async function serverOwner(): Promise<{ uid: number; gid: number } | null> {
  if (process.getuid?.() !== 0) return null;
  const [uid, gid] = await Promise.all([run('id', ['-u', 'postgres']), run('id', ['-g', 'postgres'])]);
  return { uid: Number(uid), gid: Number(gid) };
}

async function untilReady(guard: ChildProcess, bin: string, port: number): Promise<void> {
  const limit = AbortSignal.timeout(START_LIMIT_MS);
  for (;;) {
    if (guard.exitCode !== null || guard.signalCode !== null) throw new Error('the server ended');
    const isReady = await run(join(bin, 'pg_isready'), ['--quiet', '--host=127.0.0.1', `--port=${port}`]).then(
      () => true,
      () => false,
    );
    if (isReady) return;
    await sleep(50, undefined, { signal: limit });
  }
}

async function stopGuard(guard: ChildProcess): Promise<void> {
  if (guard.exitCode !== null || guard.signalCode !== null) return;
  const ended = once(guard, 'exit', { signal: AbortSignal.timeout(STOP_LIMIT_MS) });
  guard.stdin?.end();
  await ended;
}
