/** Parses Prometheus' text format. */

export interface MetricLine {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Returns the samples of a scrape. Throws if a line is neither a sample nor a comment. */
export function parseMetrics(text: string): MetricLine[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('# '))
    .map((line) => {
      const [, name, labels = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      if (name === undefined || value === undefined) throw new Error(`not a sample: ${line}`);
      const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = '', text = '']): [string, string] => [key, text]);
      return { name, labels: Object.fromEntries(pairs), value: Number(value) };
    });
}

/** Returns the metrics of a service that accepts the admin token. */
export async function metricsOf({ admin }: { admin(method: string, path: string): Promise<Response> }): Promise<MetricLine[]> {
  return parseMetrics(await (await admin('GET', '/metrics')).text());
}

/** Adds up all samples of a metric that have these labels. */
export function sumOf(lines: readonly MetricLine[], name: string, labels: Readonly<Record<string, string>> = {}): number {
  const wanted = Object.entries(labels);
  return lines
    .filter((line) => line.name === name && wanted.every(([key, value]) => line.labels[key] === value))
    .reduce((sum, { value }) => sum + value, 0);
}
