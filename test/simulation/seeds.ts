/** Runs a simulation with many seeds, or only with the seed in GATEWAY_SIMULATION_SEED. */

export const simulationSeed = process.env['GATEWAY_SIMULATION_SEED'] === undefined ? null : Number(process.env['GATEWAY_SIMULATION_SEED']);

/** Runs `count` seeds, and returns the sums of what the runs counted. Throws the first failure, with its seed. */
export async function runSeeds<Name extends string>(
  count: number,
  run: (seed: number, trace?: (line: string) => void) => Promise<Readonly<Record<Name, number>>>,
  from = 1,
): Promise<Readonly<Record<Name, number>>> {
  if (simulationSeed !== null) return run(simulationSeed, (line) => process.stdout.write(`${line}\n`));
  const sums: Partial<Record<Name, number>> = {};
  // Stacks of refused calls cost a tenth of the time; a replay has them.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    for (let seed = from; seed < from + count; seed += 1) {
      const counts = await run(seed).catch((cause: unknown) => {
        const reason = cause instanceof Error ? cause.message : String(cause);
        throw new Error(`seed ${seed}: ${reason} (replay with GATEWAY_SIMULATION_SEED=${seed})`, { cause });
      });
      for (const name of Object.keys(counts) as Name[]) sums[name] = (sums[name] ?? 0) + counts[name];
    }
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return sums as Record<Name, number>;
}
