/** Errors that are sent as plain text (docs/api/reference.md#plain-text-errors). */
export class PlainTextError extends Error {
  readonly status: 400 | 413 | 415 | 422;

  constructor(status: 400 | 413 | 415 | 422, message: string) {
    super(message);
    this.name = 'PlainTextError';
    this.status = status;
  }
}
