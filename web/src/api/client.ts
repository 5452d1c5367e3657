// The one way to the control plane: typed requests, and queries that forget the session when it has ended.
import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import createFetch from "openapi-fetch";
import createQueries from "openapi-react-query";
import { isSignedOut } from "../logic/problem";
import type { paths } from "./schema";

const SESSION_KEY = ["get", "/api/v1/session"] as const;
const REFRESH_MS = 5_000;

export const fetchApi = createFetch<paths>({ baseUrl: "/" });
export const api = createQueries(fetchApi);

/** For queries whose answer changes while one looks at it; they rest while the page is hidden. */
export const live = { refetchInterval: REFRESH_MS } as const;

export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: (error, query) => query.queryKey[1] !== SESSION_KEY[1] && notice(error) }),
  mutationCache: new MutationCache({ onError: (error, _body, _context, mutation) => mutation.options.meta?.["signsIn"] !== true && notice(error) }),
  defaultOptions: { queries: { retry: false, refetchOnWindowFocus: true, staleTime: 2_000 } },
});

const notice = (error: unknown): unknown => isSignedOut(error) && forgetSession();

/** Whoever is signed in is asked for anew: nobody, when the session has ended. */
export const forgetSession = (): Promise<void> => queries.resetQueries({ queryKey: SESSION_KEY });

/** What was changed is asked for anew, whatever it was. */
export const refresh = (): Promise<void> =>
  queries.invalidateQueries({ predicate: (query) => query.queryKey[1] !== SESSION_KEY[1] });
