/** Runs a simulation with many seeds, or with the one of GATEWAY_SIMULATION_SEED. */

export const simulationSeed = process.env['GATEWAY_SIMULATION_SEED'] === undefined ? null : Number(process.env['GATEWAY_SIMULATION_SEED']);

/** Runs the seeds 1 to `count`, and returns the sums of what the runs counted. Throws the first failure, with its seed. */
export async function runSeeds<Name extends string>(
  count: number,
  run: (seed: number, trace?: (line: string) => void) => Promise<Readonly<Record<Name, number>>>,
): Promise<Readonly<Record<Name, number>>> {
  if (simulationSeed !== null) return run(simulationSeed, (line) => process.stdout.write(`${line}\n`));
  const sums: Partial<Record<Name, number>> = {};
  for (let seed = 1; seed <= count; seed += 1) {
    const counts = await run(seed).catch((cause: unknown) => {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`seed ${seed}: ${reason} (replay with GATEWAY_SIMULATION_SEED=${seed})`, { cause });
    });
    for (const name of Object.keys(counts) as Name[]) sums[name] = (sums[name] ?? 0) + counts[name];
  }
  return sums as Record<Name, number>;
}
