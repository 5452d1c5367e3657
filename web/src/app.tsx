// The console for signed-in users; the sign-in page for others.
import { lazy, Suspense, useEffect } from "react";
import { Route, Switch } from "wouter";
import { api } from "./api/client";
import { follow } from "./api/feed";
import { isSignedOut } from "./logic/problem";
import { MapPage } from "./pages/map-page";
import { SignIn } from "./pages/sign-in";
import { Shell } from "./shell";
import { Empty, Loading, ProblemNote } from "./ui/states";

const Clusters = lazy(() => import("./pages/clusters"));
const ClusterPage = lazy(() => import("./pages/cluster"));
const TopicPage = lazy(() => import("./pages/topic"));
const GroupPage = lazy(() => import("./pages/group"));
const LinkPage = lazy(() => import("./pages/link"));
const Tasks = lazy(() => import("./pages/tasks"));
const Audit = lazy(() => import("./pages/audit"));

/** Shown while the control plane is unreachable. */
const RETRY_MS = 3_000;

export function App() {
  const session = api.useQuery("get", "/api/v1/session", {}, {
    staleTime: Number.POSITIVE_INFINITY,
    refetchInterval: ({ state: { error } }) => (error === null || isSignedOut(error) ? false : RETRY_MS),
  });
  if (isSignedOut(session.error)) return <SignIn onSignedIn={() => void session.refetch()} />;
  if (session.data === undefined) return session.error ? <ProblemNote error={session.error} /> : <Loading />;
  return <SignedIn />;
}

function SignedIn() {
  useEffect(follow, []);
  return (
    <Shell>
      <Suspense fallback={<Loading />}>
        <Switch>
          <Route path="/" component={MapPage} />
          <Route path="/clusters" component={Clusters} />
          <Route path="/clusters/:cluster/topics/:topic" component={TopicPage} />
          <Route path="/clusters/:cluster/groups/:group" component={GroupPage} />
          <Route path="/clusters/:cluster/links/:link" component={LinkPage} />
          <Route path="/clusters/:cluster/:tab?" component={ClusterPage} />
          <Route path="/tasks" component={Tasks} />
          <Route path="/audit" component={Audit} />
          <Route>
            <Empty title="There is no such page">
              <p>Begin from the map.</p>
            </Empty>
          </Route>
        </Switch>
      </Suspense>
    </Shell>
  );
}
