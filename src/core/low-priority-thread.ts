/**
 * Runs CPU-intensive jobs in a worker thread, e.g. reading a prompt of many megabytes, so that the event loop can keep
 * serving other calls. The thread has a lower priority, so on a single core it only gets the time that the event loop
 * doesn't use.
 *
 * The thread runs one job at a time. If several owners (projects) have jobs, the owners take turns. The thread starts
 * with the first job, ends when it has been idle for a while, and doesn't keep the process alive. If a job crashes the
 * thread, e.g. because it runs out of memory, only that job fails, and the next job starts a new thread.
 */
import { Worker } from 'node:worker_threads';

/**
 * We process bodies and texts in the thread if they have at least this size. For a prompt of 1 MiB, the event loop
 * would need about 10 ms to do everything itself.
 */
export const largeBytes = 1_024 * 1_024;

/** An idle thread ends after this time, which frees the memory of its last job. */
const idleMs = 30_000;

export interface JobRequest {
  readonly module: string;
  readonly name: string;
  readonly input: object;
}

export type JobReply = { readonly result: object } | { readonly error: unknown };

interface Job {
  readonly request: JobRequest;
  readonly reply: PromiseWithResolvers<object>;
}

/**
 * Defines a job that runs the function `name` of `module` in the thread. Its input and result are copied, except for a
 * Uint8Array of `largeBytes` or more. The thread takes over the memory of such an array, so the sender can't use it
 * afterwards. Rejects if the function throws or crashes the thread.
 */
export function defineJob<Run extends (input: never) => object>(
  module: string,
  name: string,
): (owner: string, input: Parameters<Run>[0]) => Promise<ReturnType<Run>> {
  // `Run` is the type of the function that the thread executes, so the cast is safe.
  return (owner, input) => enqueue(owner, { module, name, input }) as Promise<ReturnType<Run>>;
}

/** Returns the buffers of a message that we transfer instead of copying them. */
export function movedMemory(message: object): ArrayBuffer[] {
  return Object.values(message).flatMap((value) => (isMoved(value) ? value.buffer : []));
}

function isMoved(value: unknown): value is Uint8Array<ArrayBuffer> {
  return value instanceof Uint8Array && value.buffer instanceof ArrayBuffer && value.byteLength >= largeBytes;
}

/** The jobs of each owner. The first owner in this map is the next one whose job runs. */
const waiting = new Map<string, Job[]>();
let worker: Worker | null = null;
let running: Job | null = null;
let idleTimer: NodeJS.Timeout | undefined;

function enqueue(owner: string, request: JobRequest): Promise<object> {
  const job: Job = { request, reply: Promise.withResolvers() };
  const jobs = waiting.get(owner);
  if (jobs) jobs.push(job);
  else waiting.set(owner, [job]);
  if (running === null) runNext();
  return job.reply.promise;
}

function runNext(): void {
  running = takeNext();
  if (running === null) return;
  clearTimeout(idleTimer);
  worker ??= start();
  worker.ref();
  const { request } = running;
  worker.postMessage(request, movedMemory(request.input));
}

function takeNext(): Job | null {
  for (const [owner, [job, ...others]] of waiting) {
    waiting.delete(owner);
    if (others.length > 0) waiting.set(owner, others);
    return job ?? null;
  }
  return null;
}

function start(): Worker {
  const started = new Worker(new URL('./low-priority-worker.ts', import.meta.url));
  const settle = (use: (reply: Job['reply']) => void): void => {
    const ended = running;
    if (running !== null) started.unref();
    runNext();
    if (running === null) idleTimer = setTimeout(() => stop(started), idleMs).unref();
    if (ended) use(ended.reply);
  };
  const fail = (error: Error): void => {
    if (worker !== started) return;
    stop(started);
    settle(({ reject }) => reject(error));
  };
  started.on('message', (reply: JobReply) => {
    if ('error' in reply) settle(({ reject }) => reject(reply.error));
    else settle(({ resolve }) => resolve(reply.result));
  });
  started.on('error', fail);
  started.on('exit', (code) => fail(new Error(`the thread ended with code ${code}`)));
  return started;
}

function stop(stopped: Worker): void {
  if (worker === stopped) worker = null;
  stopped.unref();
  void stopped.terminate();
}
