/** Errors that the HTTP layer answers with plain text before a handler runs (specification 7.2). */
export class PlainTextError extends Error {
  readonly status: 400 | 413 | 415 | 422;

  constructor(status: 400 | 413 | 415 | 422, message: string) {
    super(message);
    this.name = 'PlainTextError';
    this.status = status;
  }
}
