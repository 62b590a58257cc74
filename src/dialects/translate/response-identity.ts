/** Defaults for members that a vendor omitted from its response. */
export interface ResponseIdentity {
  /** The call's id, for instance; missing ids of tool calls are derived from it. */
  readonly id: string;
  readonly model: string;
}
