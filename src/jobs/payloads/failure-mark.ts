/** Metadata key of a payload with a failure's message and stack. In a separate file, because the workflow bundle includes it. */
export const failureMark = 'gateway-failure';
