// The admin key opens a session; the key itself is not kept.
import { api } from "../api/client";
import { Field } from "../ui/field";
import { ProblemNote } from "../ui/states";

export function SignIn({ onSignedIn }: { onSignedIn: () => void }) {
  const enter = api.useMutation("post", "/api/v1/session", { onSuccess: onSignedIn, meta: { signsIn: true } });
  return (
    <main className="sign-in">
      <title>Isthmus</title>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          const key = String(new FormData(event.currentTarget).get("key") ?? "").trim();
          enter.mutate({ body: { key } });
        }}
      >
        <h1>Isthmus</h1>
        <p className="muted">Sign in to see regions, clusters and the flows between them.</p>
        <Field label="Admin key" hint="Printed when the control plane first started, and kept in the file admin-key beside its data.">
          <input name="key" type="password" autoComplete="current-password" required autoFocus />
        </Field>
        {enter.error !== null && <ProblemNote error={enter.error} />}
        <button type="submit" className="primary" disabled={enter.isPending}>
          Sign in
        </button>
      </form>
    </main>
  );
}
