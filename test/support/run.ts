/** Runs a program with a timeout and waits until it ends. */
import { execFile } from 'node:child_process';

export interface RunOptions {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  uid?: number;
  gid?: number;
  timeoutMs?: number;
}

/** Returns the program's stdout. If the program fails or times out, throws an error with its last lines. */
export function run(command: string, args: readonly string[], { timeoutMs = 600_000, ...options }: RunOptions = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(command, args, { ...options, timeout: timeoutMs, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      if (error === null) return resolve(stdout);
      const said = `${stdout}\n${stderr}`.trim().split('\n').slice(-4).join(' | ');
      const reason = error.killed ? `took longer than ${timeoutMs / 1000} s` : `failed (${error.code ?? error.signal})`;
      reject(new Error(`${command} ${args.slice(0, 2).join(' ')} ${reason}: ${said}`, { cause: error }));
    });
  });
}
