/** The frame around all pages: navigation, search, login. */

import { Fragment, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { get } from "./api";
import { useKeys } from "./keys";
import { Menu } from "./menu";
import { pageOf, titleOf } from "./pages";
import { Login } from "./pages/login";
import { usePlace } from "./place";
import { paceFor } from "./poll";
import { url } from "./route";
import { features, session, useShared } from "./state";
import { TopBar } from "./topbar";
import type { Overview } from "./types";
import { Alarm } from "./ui/alarm";
import { Loading } from "./ui/basics";
import { Questions } from "./ui/dialog";
import { Notices } from "./ui/notices";
import { KeyHelp, Search } from "./ui/search";

export function App(): JSX.Element {
  const who = useShared(session);
  return (
    <>
      {who === undefined ? <Loading /> : who === null ? <Login /> : <Frame key={who.name} />}
      <Questions />
      <Notices />
    </>
  );
}

async function learn(): Promise<void> {
  const told = await get<{ paths: Record<string, unknown> }>("/api/openapi.json");
  features.value = new Set(Object.keys(told.paths));
  const { object_totals } = await get<Overview>(url(["overview"], { columns: "object_totals" }));
  paceFor(object_totals?.queues ?? 0);
}

function Frame(): JSX.Element {
  const place = usePlace();
  const where = place.parts.join("/");
  const [opened, setOpened] = useState({ overlay: "", where });
  // What was opened on another page is closed.
  const overlay = opened.where === where ? opened.overlay : "";
  const setOverlay = (wanted: "" | "search" | "keys" | "menu"): void =>
    setOpened({ overlay: wanted, where });
  useShared(features);
  useEffect(() => {
    void learn().catch(() => undefined); // without it the page only offers less
  }, []);
  const title = titleOf(place);
  useEffect(() => {
    document.title = `${title} · Headrace`;
  }, [title]);
  useEffect(() => window.scrollTo(0, 0), [where]);
  useKeys({ search: () => setOverlay("search"), help: () => setOverlay("keys") });
  return (
    <div class={`frame${overlay === "menu" ? " menu-open" : ""}`}>
      <button type="button" class="skip" onClick={focusMain}>
        Skip to content
      </button>
      <TopBar
        onSearch={() => setOverlay("search")}
        onMenu={() => setOverlay(overlay === "menu" ? "" : "menu")}
        menuOpen={overlay === "menu"}
      />
      <Menu place={place} />
      <main id="main" tabIndex={-1}>
        <Alarm />
        <Fragment key={where}>{pageOf(place)}</Fragment>
      </main>
      {overlay === "search" && <Search onClose={() => setOverlay("")} />}
      {overlay === "keys" && <KeyHelp onClose={() => setOverlay("")} />}
    </div>
  );
}

/** Not a link to #main: the hash is the address of the page. */
function focusMain(): void {
  document.getElementById("main")?.focus();
}
