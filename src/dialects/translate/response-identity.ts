/** Stands in for what a vendor left out of its answer. */
export interface ResponseIdentity {
  /** For instance the call's id; ids of tool calls that have none are made of it. */
  readonly id: string;
  readonly model: string;
}
