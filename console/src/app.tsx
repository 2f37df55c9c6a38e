/** The frame around all pages: navigation, search, login. */

import { Fragment, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { get } from "./api";
import { Menu } from "./menu";
import { useAddress } from "./navigation";
import { pageOf, titleOf } from "./pages";
import { Login } from "./pages/login";
import { adaptPollRate } from "./poll";
import { useShortcuts } from "./shortcuts";
import { features, session, useShared } from "./state";
import { TopBar } from "./topbar";
import type { Overview } from "./types";
import { Alarm } from "./ui/alarm";
import { Loading } from "./ui/basics";
import { ConfirmDialogs } from "./ui/dialog";
import { Notices } from "./ui/notices";
import { Search, ShortcutHelp } from "./ui/search";
import { url } from "./urls";

export function App(): JSX.Element {
  const who = useShared(session);
  return (
    <>
      {who === undefined ? <Loading /> : who === null ? <Login /> : <Frame key={who.name} />}
      <ConfirmDialogs />
      <Notices />
    </>
  );
}

async function loadFeatures(): Promise<void> {
  const openapi = await get<{ paths: Record<string, unknown> }>("/api/openapi.json");
  features.value = new Set(Object.keys(openapi.paths));
  const { object_totals } = await get<Overview>(url(["overview"], { columns: "object_totals" }));
  adaptPollRate(object_totals?.queues ?? 0);
}

function Frame(): JSX.Element {
  const address = useAddress();
  const where = address.parts.join("/");
  const [opened, setOpened] = useState({ overlay: "", where });
  // Overlays close when the page changes.
  const overlay = opened.where === where ? opened.overlay : "";
  const setOverlay = (wanted: "" | "search" | "keys" | "menu"): void =>
    setOpened({ overlay: wanted, where });
  useShared(features);
  useEffect(() => {
    void loadFeatures().catch(() => undefined); // optional: without it some pages are hidden
  }, []);
  const title = titleOf(address);
  useEffect(() => {
    document.title = `${title} · Headrace`;
  }, [title]);
  useEffect(() => window.scrollTo(0, 0), [where]);
  useShortcuts({ search: () => setOverlay("search"), help: () => setOverlay("keys") });
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
      <Menu address={address} />
      <main id="main" tabIndex={-1}>
        <Alarm />
        <Fragment key={where}>{pageOf(address)}</Fragment>
      </main>
      {overlay === "search" && <Search onClose={() => setOverlay("")} />}
      {overlay === "keys" && <ShortcutHelp onClose={() => setOverlay("")} />}
    </div>
  );
}

/** Not a link to #main: the hash is the address of the page. */
function focusMain(): void {
  document.getElementById("main")?.focus();
}
