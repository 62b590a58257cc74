/** The code of the worker thread that `low-priority-thread.ts` starts. */
import { parentPort } from 'node:worker_threads';
import { GatewayError } from './errors.ts';
import { type JobReply, type JobRequest, movedMemory } from './low-priority-thread.ts';

parentPort?.on('message', (request: JobRequest) => {
  run(request).then(
    (result) => reply({ result }, result),
    (error: unknown) => reply(error instanceof GatewayError ? { refusal: { code: error.code, message: error.message } } : { error }),
  );
});

async function run({ module, name, input }: JobRequest): Promise<object> {
  const { [name]: work } = await import(module);
  return await work(input);
}

function reply(message: JobReply, moved: object = {}): void {
  parentPort?.postMessage(message, movedMemory(moved));
}
