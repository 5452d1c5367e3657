"""The admin key, sessions, and requests that are refused."""

import base64
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.edge.api.server import Api, running_api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("door")) as serving:
        yield serving


def _basic(user: str, key: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{key}".encode()).decode()}


def test_the_key_is_printed_once_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    with running_api(tmp_path) as api:
        assert f"admin key {api.key} " in api.output
        assert stat.S_IMODE((tmp_path / "admin-key").stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "api.db").stat().st_mode) == 0o600
        assert api.key.encode() not in (tmp_path / "api.db").read_bytes() + (tmp_path / "api.db-wal").read_bytes()
        key = api.key
        assert api.stop() == 0
        api.start()
        assert api.output.startswith("ready ")
        assert api.key == key
        assert api.request("GET", "/api/v1/session").body == {"actor": "admin"}


def test_requests_without_the_key_are_refused(api: Api) -> None:
    for path in ("/api/v1/topology", "/kafka/v3/clusters", "/api/v1/events", "/api/v1/audit"):
        answer = api.send("GET", path)
        assert (answer.status, answer.body["error_code"]) == (401, 40101)
        assert answer.headers["WWW-Authenticate"] == 'Basic realm="isthmus"'
    from_a_page = api.send("GET", "/api/v1/topology", headers={"Sec-Fetch-Mode": "cors"})
    assert from_a_page.headers["WWW-Authenticate"] == 'Session realm="isthmus"'
    assert api.send("GET", "/api/v1/topology", headers={"Authorization": "Bearer x"}).status == 401
    assert api.send("GET", "/api/v1/topology", headers={"Authorization": "Basic !"}).status == 401
    assert api.send("GET", "/api/v1/topology", headers={"Cookie": "isthmus_session=x"}).status == 401


def test_health_metrics_and_the_document_need_no_key(api: Api) -> None:
    assert api.send("GET", "/health/live").body == {"status": "live"}
    assert api.send("GET", "/health/ready").body == {"status": "ready"}
    api.request("GET", "/api/v1/session")
    assert 'isthmus_api_requests_total{operation="get_session"' in api.send("GET", "/metrics").body
    assert api.send("GET", "/openapi.json").body["openapi"] == "3.1.0"


def test_a_session_authenticates_until_it_is_deleted(api: Api) -> None:
    signed_in = api.send("POST", "/api/v1/session", {"key": api.key})
    assert (signed_in.status, signed_in.body) == (200, {"actor": "admin"})
    cookie = signed_in.headers["Set-Cookie"]
    for attribute in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert attribute in cookie
    headers = {"Cookie": cookie.partition(";")[0]}
    assert api.send("GET", "/api/v1/session", headers=headers).body == {"actor": "admin"}
    assert api.send("DELETE", "/api/v1/session", headers=headers).status == 204
    over = api.send("GET", "/api/v1/session", headers=headers)
    assert (over.status, over.body["message"]) == (401, "The session has expired; sign in again.")


def test_pages_of_other_sites_change_nothing(api: Api) -> None:
    place = {"title": "X", "latitude": 0, "longitude": 0}
    for foreign in (
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        answer = api.send("PUT", "/api/v1/regions/x", place, {**api.authorization, **foreign})
        assert (answer.status, answer.body["message"]) == (403, "Changes from other sites' pages are not allowed.")
    assert api.get("/api/v1/regions") == {"regions": []}
    own = {"Origin": f"http://127.0.0.1:{api.port}", "Sec-Fetch-Site": "same-origin"}
    assert api.send("PUT", "/api/v1/regions/x", place, {**api.authorization, **own}).status == 200
    assert api.request("DELETE", "/api/v1/regions/x").status == 204


def test_guessing_is_stopped_for_the_right_key_as_well(tmp_path: Path) -> None:
    with running_api(tmp_path) as api:
        for _ in range(9):
            assert api.send("GET", "/api/v1/session", headers=_basic("admin", "wrong")).status == 401
        assert api.send("GET", "/api/v1/session", headers=_basic("root", api.key)).status == 401
        stopped = api.request("GET", "/api/v1/session")
        assert stopped.status == 429
        assert 0 < int(stopped.headers["Retry-After"]) <= 60
        assert api.send("POST", "/api/v1/session", {"key": api.key}).status == 429


def test_requests_are_bounded_and_explained(api: Api) -> None:
    large = api.request("PUT", "/api/v1/regions/x", {"title": "x" * 1_100_000, "latitude": 0, "longitude": 0})
    assert (large.status, large.body) == (413, {"error_code": 413, "message": "HTTP 413 Request Entity Too Large"})
    wrong = api.request("PUT", "/api/v1/regions/x", {"title": "x", "latitude": 91, "height": 3})
    assert (wrong.status, wrong.body["error_code"]) == (422, 422)
    assert wrong.body["message"] == (
        "body.latitude: Input should be less than or equal to 90; body.longitude: Field required; "
        "body.height: Extra inputs are not permitted"
    )
    no_json = api.send("PUT", "/api/v1/regions/x", headers={**api.authorization, "Content-Type": "text/plain"})
    assert (no_json.status, no_json.body["error_code"]) == (415, 415)
    assert api.request("GET", "/api/v1/audit?limit=0").status == 400
    assert api.request("GET", "/api/v1/nothing").body == {"error_code": 404, "message": "HTTP 404 Not Found"}
    assert api.request("PATCH", "/api/v1/topology").headers["Allow"] == "GET"


def test_every_response_has_security_headers(api: Api) -> None:
    for path in ("/", "/openapi.json", "/api/v1/session", "/health/live"):
        headers = api.send("GET", path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; ")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Server"] == "isthmus"


def test_the_console_is_served_from_a_directory_and_nothing_beside_it(tmp_path: Path) -> None:
    built = tmp_path / "dist"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text("<title>console</title>")
    (built / "assets" / "main.1a2b.js").write_text("main()")
    (tmp_path / "secret").write_text("secret")
    with running_api(tmp_path / "api", ["--console", str(built)]) as api:
        page = api.send("GET", "/")
        assert (page.status, page.body, page.headers["Cache-Control"]) == (200, "<title>console</title>", "no-cache")
        assert api.send("GET", "/clusters/of/the/console").body == "<title>console</title>"
        script = api.send("GET", "/assets/main.1a2b.js")
        assert (script.body, script.headers["Cache-Control"]) == ("main()", "public, max-age=31536000, immutable")
        for path in ("/../secret", "/%2e%2e/secret", "/assets/..%2f..%2fsecret"):
            assert "secret" not in api.send("GET", path).body
        assert api.send("GET", "/api/v1/unknown").status == 404
