export type PlainTextStatus = 400 | 413 | 415 | 422;

export class PlainTextError extends Error {
  readonly status: PlainTextStatus;

  constructor(status: PlainTextStatus, message: string) {
    super(message);
    this.name = 'PlainTextError';
    this.status = status;
  }
}
