export function latest(...times: readonly (Date | null | undefined)[]): Date | null {
  return pick(times, Math.max);
}

export function earliest(...times: readonly (Date | null | undefined)[]): Date | null {
  return pick(times, Math.min);
}

function pick(times: readonly (Date | null | undefined)[], choose: (...values: number[]) => number): Date | null {
  const given = times.flatMap((time) => time?.getTime() ?? []);
  return given.length === 0 ? null : new Date(choose(...given));
}
