/** Top bar: search, virtual host, theme, user. */

import type { JSX } from "preact";

import { logout } from "./api";
import { usePoll } from "./poll";
import { session, type Theme, theme, useShared, vhost } from "./state";
import { attempt } from "./ui/notices";
import { link, url } from "./urls";

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const SIGN: Record<Theme, string> = { auto: "◐", light: "☀", dark: "☾" };

export function Logo(): JSX.Element {
  return (
    <svg class="logo" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M6 12c4-4 6-4 10 0s6 4 10 0M6 20c4-4 6-4 10 0s6 4 10 0" />
    </svg>
  );
}

export function ThemeSwitch(): JSX.Element {
  const chosen = useShared(theme);
  return (
    <button
      type="button"
      class="quiet icon"
      aria-label={`Theme: ${chosen}; switch to ${NEXT[chosen]}`}
      title={`Theme: ${chosen === "auto" ? "system" : chosen}`}
      onClick={() => (theme.value = NEXT[chosen])}
    >
      {SIGN[chosen]}
    </button>
  );
}

function VhostChoice(): JSX.Element | null {
  const chosen = useShared(vhost);
  const { data } = usePoll<{ name: string }[]>(url(["vhosts"], { columns: "name" }), 60_000);
  const names = (data ?? []).map((one) => one.name);
  if (names.length < 2 && chosen === null) return null;
  const known = chosen === null || names.includes(chosen) ? names : [...names, chosen];
  return (
    <select
      class="vhost-choice"
      aria-label="Virtual host"
      value={chosen === null ? "all" : `=${chosen}`}
      onChange={(event) => {
        const value = event.currentTarget.value;
        vhost.value = value === "all" ? null : value.slice(1);
      }}
    >
      <option value="all">all vhosts</option>
      {known.map((name) => (
        <option key={name} value={`=${name}`}>
          {name}
        </option>
      ))}
    </select>
  );
}

export function TopBar(props: {
  onSearch: () => void;
  onMenu: () => void;
  menuOpen: boolean;
}): JSX.Element {
  const who = useShared(session);
  return (
    <header class="topbar">
      <button
        type="button"
        class="quiet icon menu-button"
        aria-label="Menu"
        aria-expanded={props.menuOpen}
        onClick={props.onMenu}
      >
        ☰
      </button>
      <a class="brand" href={link([])}>
        <Logo />
        <span>Headrace</span>
      </a>
      <button type="button" class="search-button" onClick={props.onSearch}>
        <span>Search</span>
        <kbd>/</kbd>
      </button>
      <div class="spacer" />
      <VhostChoice />
      <ThemeSwitch />
      <span class="who" title={who?.tags.join(", ")}>
        {who?.name}
      </span>
      <button type="button" class="quiet logout" onClick={() => void attempt(logout)}>
        Log out
      </button>
    </header>
  );
}
