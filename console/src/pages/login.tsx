/** Login form. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { login } from "../api";
import { Logo, ThemeSwitch } from "../topbar";
import { Failure } from "../ui/basics";

export function Login(): JSX.Element {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await login(name, password);
    } catch (failure) {
      setError(failure as Error);
      setPassword("");
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="login">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <header>
          <h1>
            <Logo /> Headrace
          </h1>
          <ThemeSwitch />
        </header>
        <label class="field">
          <span>User</span>
          <input
            name="username"
            autofocus
            required
            autocomplete="username"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          <span>Password</span>
          <input
            name="password"
            type="password"
            required
            autocomplete="current-password"
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
        </label>
        <Failure error={error} />
        <button type="submit" class="primary" disabled={busy}>
          Log in
        </button>
        <p class="muted">
          A new broker has the user <code>guest</code> with the password <code>guest</code>, which
          can log in only from the broker's machine.
        </p>
      </form>
    </div>
  );
}
