// Errors of the API.

interface ApiError {
  readonly error_code: number;
  readonly message: string;
}

function isApiError(error: unknown): error is ApiError {
  return typeof error === "object" && error !== null && "error_code" in error && "message" in error;
}

/** A sentence for people. */
export function problemText(error: unknown): string {
  if (isApiError(error)) return error.message;
  return "The control plane is unreachable; retrying.";
}

/** The first three digits of an error's code are the status. */
export function isSignedOut(error: unknown): boolean {
  return isApiError(error) && String(error.error_code).startsWith("401");
}
