/**
 * Runs CPU-intensive jobs in worker threads, e.g. reading a prompt of many megabytes, so that the event loop can keep
 * serving other calls. The threads have a lower priority, so on a single core they mostly get the time that the event
 * loop doesn't use. There's a thread for large bodies and one for passwords.
 *
 * A thread runs one job at a time. If several owners (projects) have jobs, the owners take turns. A thread starts with
 * the first job, ends when it has been idle for a while, and doesn't keep the process alive. If a job crashes its
 * thread, e.g. because it runs out of memory, only that job fails, and the next job starts a new thread.
 */
import { Worker } from 'node:worker_threads';
import { type ErrorCode, gatewayError } from './errors.ts';
import { listThreads, listV8Threads, lowerPriorities } from './thread-priority.ts';
import { joinInTurns } from './turns.ts';

/**
 * We process bodies and texts in a thread if they have at least this size. For a prompt of 1 MiB, the event loop
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

/** Custom error classes don't survive the transfer between threads, so we send the parts of a GatewayError. */
export type JobReply =
  | { readonly result: object }
  | { readonly refusal: { readonly code: ErrorCode; readonly message: string } }
  | { readonly error: unknown };

interface Job {
  readonly request: JobRequest;
  readonly reply: PromiseWithResolvers<object>;
}

/**
 * How far we lower the priority of each kind of thread below the event loop's. If the event loop needs a whole core,
 * Linux gives a thread a tenth as much CPU time with `nice` 10, and a thirtieth with `nice` 15. Starting a thread takes
 * 100 to 450 ms of CPU time, so if the event loop never pauses, the first job can take several seconds.
 */
const niceness = {
  /** Checking a password gets more CPU time than reading a body, because a person is waiting to sign in. */
  passwords: 10,
  bodies: 15,
  /**
   * V8's own threads collect the garbage of all threads, and the event loop has to wait for them when it collects its
   * own garbage. So they get more CPU time than our thread for large bodies.
   */
  v8: 10,
};

/**
 * Defines a job that runs the function `name` of `module` in a thread. Its input and result are copied, except for a
 * Uint8Array of `largeBytes` or more. The thread takes over the memory of such an array, so the sender can't use it
 * afterwards. Rejects if the function throws or crashes the thread. A GatewayError keeps its code and message, but all
 * other custom errors become plain errors.
 */
export function defineJob<Run extends (input: never) => object>(
  module: string,
  name: string,
  thread: keyof typeof threads = 'bodies',
): (owner: string, input: Parameters<Run>[0]) => Promise<ReturnType<Run>> {
  // `Run` is the type of the function that the thread executes, so the cast is safe.
  return (owner, input) => threads[thread].run(owner, { module, name, input }) as Promise<ReturnType<Run>>;
}

/**
 * Returns bytes that a job can take over. Memory can only be transferred as a whole, so we copy a body if it shares
 * its memory with something else, e.g. with other data that arrived in the same packet.
 */
export async function withOwnMemory(body: Buffer): Promise<Uint8Array> {
  return body.length < largeBytes || body.buffer.byteLength === body.length ? body : joinInTurns([body], body.length);
}

/** Returns a Buffer with the same memory. Buffers arrive in another thread as a plain Uint8Array. */
export function toBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Returns the buffers of a message that we transfer instead of copying them. */
export function movedMemory(message: object): ArrayBuffer[] {
  return Object.values(message).flatMap((value) => (isMoved(value) ? value.buffer : []));
}

function isMoved(value: unknown): value is Uint8Array<ArrayBuffer> {
  return value instanceof Uint8Array && value.buffer instanceof ArrayBuffer && value.byteLength >= largeBytes;
}

/** Starts with the first job. */
function createThread(nice: number) {
  /** Jobs by owner. The first owner in the map is served next. */
  const waiting = new Map<string, Job[]>();
  let worker: Worker | null = null;
  let running: Job | null = null;
  let idleTimer: NodeJS.Timeout | undefined;

  const runNext = (): void => {
    running = takeNext(waiting);
    if (running === null) return;
    clearTimeout(idleTimer);
    worker ??= start();
    worker.ref();
    const { request } = running;
    worker.postMessage(request, movedMemory(request.input));
  };

  const start = (): Worker => {
    const others = listThreads();
    const started = new Worker(new URL('./low-priority-worker.ts', import.meta.url));
    const added = [...listThreads().difference(others)];
    // If another thread was created at the same time, we can't tell which one is ours. Leave both alone in that case,
    // because the other thread would keep the lower priority forever.
    const own = added.length === 1 ? added : [];
    // Lower the priority here and not in the thread itself. Otherwise the thread would take half of a core from the
    // event loop while it loads its first modules.
    lowerPriorities(own, nice);
    lowerPriorities(listV8Threads(), niceness.v8);
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
      else if ('refusal' in reply) settle(({ reject }) => reject(gatewayError(reply.refusal.code, { message: reply.refusal.message })));
      else settle(({ resolve }) => resolve(reply.result));
    });
    started.on('error', fail);
    started.on('exit', (code) => fail(new Error(`the worker thread exited with code ${code}`)));
    return started;
  };

  const stop = (stopped: Worker): void => {
    if (worker === stopped) worker = null;
    stopped.unref();
    void stopped.terminate();
  };

  return {
    run(owner: string, request: JobRequest): Promise<object> {
      const job: Job = { request, reply: Promise.withResolvers() };
      const jobs = waiting.get(owner);
      if (jobs) jobs.push(job);
      else waiting.set(owner, [job]);
      if (running === null) runNext();
      return job.reply.promise;
    },
  };
}

const threads = { bodies: createThread(niceness.bodies), passwords: createThread(niceness.passwords) };

function takeNext(waiting: Map<string, Job[]>): Job | null {
  for (const [owner, [job, ...others]] of waiting) {
    waiting.delete(owner);
    if (others.length > 0) waiting.set(owner, others);
    return job ?? null;
  }
  return null;
}
