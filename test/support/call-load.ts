/** Calls without a pause, over processes that may change meanwhile. */
import type { GatewayProcess } from './gateway-process.ts';

const concurrency = 4;

export interface CallLoad {
  /** Sends calls to these processes only; resolves when none of the others serves one any more. */
  use(gateways: readonly GatewayProcess[]): Promise<void>;
  /** Resolves when this many further calls have ended. */
  untilSent(count: number): Promise<void>;
  /** Ids of the successful calls. */
  ids(): readonly string[];
  /** What happened to the others. */
  failures(): readonly string[];
  stop(): Promise<void>;
}

/** Starts at once. The caller stops it. */
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
      // The processes under test get most of the CPU time.
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
