/** The code of the worker thread that `low-priority-thread.ts` starts. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { constants, getPriority, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { type JobReply, type JobRequest, movedMemory } from './low-priority-thread.ts';

lowerPriority();

parentPort?.on('message', (request: JobRequest) => {
  run(request).then(
    (result) => reply({ result }, result),
    (error: unknown) => reply({ error }),
  );
});

async function run({ module, name, input }: JobRequest): Promise<object> {
  const { [name]: work } = await import(module);
  return await work(input);
}

function reply(message: JobReply, moved: object = {}): void {
  parentPort?.postMessage(message, movedMemory(moved));
}

/**
 * Lowers the priority of this thread, and of V8's threads, which collect its garbage. This is best effort, because only
 * Linux has thread priorities.
 */
function lowerPriority(): void {
  try {
    const priority = Math.min(getPriority() + constants.priority.PRIORITY_BELOW_NORMAL, constants.priority.PRIORITY_LOW);
    setPriority(Number(readlinkSync('/proc/thread-self').split('/').at(-1)), priority);
    for (const thread of readdirSync('/proc/self/task'))
      if (readFileSync(`/proc/self/task/${thread}/comm`, 'utf8') === 'V8Worker\n') setPriority(Number(thread), priority);
  } catch {
    // On other systems, the threads may compete with the event loop if there's only a single core.
  }
}
