/** Sends calls without a pause to a set of processes that may change meanwhile. */
import type { GatewayProcess } from './gateway-process.ts';

const concurrency = 4;

export interface CallLoad {
  /** Sends calls to these processes only. Resolves once none of the other processes serves a call any more. */
  use(gateways: readonly GatewayProcess[]): Promise<void>;
  /** Resolves once this many more calls have ended. */
  untilSent(count: number): Promise<void>;
  /** Ids of the successful calls. */
  ids(): readonly string[];
  /** Describes what happened to the calls that failed. */
  failures(): readonly string[];
  stop(): Promise<void>;
}

/** Starts immediately. The caller has to stop it. */
export function createCallLoad(key: string, first: readonly GatewayProcess[]): CallLoad {
  let gateways = first;
  let isStopping = false;
  let sent = 0;
  const ids: string[] = [];
  const failures: string[] = [];
  const running = new Map<number, GatewayProcess>();
  const send = async (gateway: GatewayProcess): Promise<void> => {
    try {
      const body = { model: 'one/echo', messages: [{ role: 'user', content: `call ${sent}` }] };
      const response = await gateway.call(key, '/v1/chat/completions', body);
      const text = await response.text();
      if (response.status === 200) ids.push(response.headers.get('x-gateway-call-id') ?? '');
      else failures.push(`${response.status} ${text}`);
    } catch (error) {
      failures.push(String(error));
    }
  };
  const loops = Array.from({ length: concurrency }, async (_, slot) => {
    while (!isStopping) {
      const gateway = gateways[(sent + slot) % gateways.length];
      if (!gateway) throw new Error('a load needs a process');
      running.set(slot, gateway);
      await send(gateway);
      running.delete(slot);
      sent += 1;
      // Leave most of the CPU time to the processes under test.
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  });
  const until = async (condition: () => boolean): Promise<void> => {
    for (const deadline = performance.now() + 120_000; !condition(); ) {
      if (performance.now() > deadline) throw new Error(`the load is stuck after ${sent} calls: ${failures.slice(0, 3).join('; ')}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  return {
    async use(next) {
      gateways = next;
      await until(() => [...running.values()].every((gateway) => next.includes(gateway)));
    },
    async untilSent(count) {
      const goal = sent + count;
      await until(() => sent >= goal);
    },
    ids: () => ids,
    failures: () => failures,
    async stop() {
      isStopping = true;
      await Promise.all(loops);
    },
  };
}
