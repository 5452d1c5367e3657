// Errors as the API says them.

interface Told {
  readonly error_code: number;
  readonly message: string;
}

function isTold(error: unknown): error is Told {
  return typeof error === "object" && error !== null && "error_code" in error && "message" in error;
}

/** A sentence for people. */
export function problemText(error: unknown): string {
  if (isTold(error)) return error.message;
  return "The control plane does not answer. It is asked again by itself.";
}

/** The first three digits of an error's code are the status. */
export function isSignedOut(error: unknown): boolean {
  return isTold(error) && String(error.error_code).startsWith("401");
}
