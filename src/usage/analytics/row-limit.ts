/** How many call rows a page reads for figures that neither rollups nor cells have. */

/** Takes about 0.1 s. */
export const maxPageRows = 50_000;

/** More calls than the request allows would have to be read. */
export class TooManyCalls extends Error {
  override readonly name = 'TooManyCalls';
  readonly calls: number;

  constructor(calls: number) {
    super(`${calls} calls would have to be read`);
    this.calls = calls;
  }
}
