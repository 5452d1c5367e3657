// The one way to the control plane: typed requests, and queries that forget the session when it has ended.
import { QueryCache, QueryClient } from "@tanstack/react-query";
import createFetch from "openapi-fetch";
import createQueries from "openapi-react-query";
import { isSignedOut } from "../logic/problem";
import type { paths } from "./schema";

export const SESSION_KEY = ["get", "/api/v1/session"] as const;
const REFRESH_MS = 5_000;

export const fetchApi = createFetch<paths>({ baseUrl: "/" });
export const api = createQueries(fetchApi);

/** For queries whose answer changes while one looks at it; they rest while the page is hidden. */
export const live = { refetchInterval: REFRESH_MS } as const;

export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      if (isSignedOut(error) && query.queryKey[1] !== SESSION_KEY[1]) void queries.resetQueries({ queryKey: SESSION_KEY });
    },
  }),
  defaultOptions: { queries: { retry: false, refetchOnWindowFocus: true, staleTime: 2_000 } },
});

/** What was changed is asked for anew, whatever it was. */
export const refresh = (): Promise<void> =>
  queries.invalidateQueries({ predicate: (query) => query.queryKey[1] !== SESSION_KEY[1] });
