/**
 * Runs jobs that take a lot of CPU time, e.g. reading a prompt of many megabytes, in a worker thread, so that the event
 * loop can serve other calls in the meantime. On a single core the thread only gets the time that the event loop
 * leaves, because it runs with a lower priority.
 *
 * The thread runs one job at a time, and owners (projects) take turns. It starts with the first job, ends when it has
 * been idle for a while, and doesn't keep the process alive. If a job breaks it, e.g. because it needs too much memory,
 * only that job fails and the next one starts a new thread.
 */
import { Worker } from 'node:worker_threads';

/**
 * Bodies and texts of this size or more are worth a job. The event loop needs about 10 ms for all the work on a
 * prompt of 1 MiB.
 */
export const largeBytes = 1_024 * 1_024;

/** Keeps the memory of the last job from staying allocated for long. */
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
 * Returns a function that runs the exported function `name` of `module` in the thread. Input and result are copied,
 * except that a Uint8Array of `largeBytes` or more is moved with all of its memory, so the sender can't use it any more.
 * Rejects if the function throws or breaks the thread.
 */
export function defineJob<Run extends (input: never) => object>(
  module: string,
  name: string,
): (owner: string, input: Parameters<Run>[0]) => Promise<ReturnType<Run>> {
  // The thread calls the function with that name, so its result has the function's type.
  return (owner, input) => enqueue(owner, { module, name, input }) as Promise<ReturnType<Run>>;
}

/** Lists the memory that moves with a message. */
export function movedMemory(message: object): ArrayBuffer[] {
  return Object.values(message).flatMap((value) => (isMoved(value) ? value.buffer : []));
}

function isMoved(value: unknown): value is Uint8Array<ArrayBuffer> {
  return value instanceof Uint8Array && value.buffer instanceof ArrayBuffer && value.byteLength >= largeBytes;
}

/** The waiting jobs of each owner. The first owner in the map is served next. */
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
