/** Metadata of a payload that holds message and stack of a failure; in a file of its own, since the workflow bundle holds who sets it. */
export const failureMark = 'gateway-failure';
