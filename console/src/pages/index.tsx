/** Routes addresses to pages. */

import type { ComponentChildren } from "preact";

import { exchangeName } from "../format";
import { Card, Empty } from "../ui/basics";
import type { PageAddress } from "../urls";
import { link } from "../urls";
import { ChannelPage, ChannelsPage } from "./channels";
import { ConnectionPage, ConnectionsPage } from "./connections";
import { DeadLettersPage } from "./deadletters";
import { DefinitionsPage } from "./definitions";
import { ExchangePage } from "./exchange";
import { ExchangesPage } from "./exchanges";
import { FindPage } from "./find";
import { GroupPage, GroupsPage } from "./groups";
import { LimitsPage } from "./limits";
import { MapPage } from "./map";
import { OverviewPage } from "./overview";
import { PipelinesPage } from "./pipelines";
import { PoliciesPage } from "./policies";
import { QueuePage } from "./queue";
import { QueuesPage } from "./queues";
import { RedrivePage } from "./redrive";
import { ReportPage } from "./report";
import { ReportsPage } from "./reports";
import { RoutePage } from "./route";
import { TopicPage, TopicsPage } from "./topics";
import { UserPage } from "./user";
import { UsersPage } from "./users";
import { VhostPage, VhostsPage } from "./vhosts";

type PageFactory = (...names: string[]) => ComponentChildren;

/** By the first part of the address and the number of names after it. */
const PAGES: Record<string, Record<number, PageFactory>> = {
  "": { 0: () => <OverviewPage /> },
  map: { 0: () => <MapPage /> },
  connections: {
    0: () => <ConnectionsPage />,
    1: (name) => <ConnectionPage name={name} />,
  },
  channels: { 0: () => <ChannelsPage />, 1: (name) => <ChannelPage name={name} /> },
  exchanges: {
    0: () => <ExchangesPage />,
    2: (vhost, name) => <ExchangePage vhost={vhost} name={name} />,
  },
  queues: {
    0: () => <QueuesPage />,
    2: (vhost, name) => <QueuePage vhost={vhost} name={name} />,
  },
  deadletters: {
    0: () => <DeadLettersPage />,
    2: (vhost, name) => <RedrivePage vhost={vhost} name={name} />,
  },
  topics: {
    0: () => <TopicsPage />,
    2: (vhost, name) => <TopicPage vhost={vhost} name={name} />,
  },
  groups: {
    0: () => <GroupsPage />,
    3: (vhost, topic, name) => <GroupPage vhost={vhost} topic={topic} name={name} />,
  },
  pipelines: { 0: () => <PipelinesPage /> },
  route: { 0: () => <RoutePage /> },
  find: { 0: () => <FindPage /> },
  reports: {
    0: () => <ReportsPage />,
    2: (vhost, name) => <ReportPage vhost={vhost} name={name} />,
  },
  vhosts: { 0: () => <VhostsPage />, 1: (name) => <VhostPage name={name} /> },
  users: { 0: () => <UsersPage />, 1: (name) => <UserPage name={name} /> },
  policies: { 0: () => <PoliciesPage /> },
  limits: { 0: () => <LimitsPage /> },
  definitions: { 0: () => <DefinitionsPage /> },
};

export function pageOf(address: PageAddress): ComponentChildren {
  const [first = "", ...names] = address.parts;
  const page = PAGES[first]?.[names.length];
  return page ? (
    page(...names)
  ) : (
    <Card>
      <Empty title="Page not found">
        <a href={link([])}>Go to the overview</a>
      </Empty>
    </Card>
  );
}

const TITLES: Record<string, string> = {
  "": "Overview",
  deadletters: "Dead letters",
  route: "Test routing",
  find: "Find a message",
  vhosts: "Virtual hosts",
};

export function titleOf(address: PageAddress): string {
  const [first = "", ...names] = address.parts;
  const page = TITLES[first] ?? first.charAt(0).toUpperCase() + first.slice(1);
  const name = names.at(-1);
  if (name === undefined) return page;
  return `${first === "exchanges" ? exchangeName(name) : name} · ${page}`;
}
