"""The store in SQLite and in PostgreSQL: the same results from both."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from isthmus_api.core.inventory import ClusterKind, Region, RegisteredCluster, Service, ServiceKind
from isthmus_api.limits import SESSIONS_MAX, TASKS_KEPT, TASKS_OPEN_MAX
from isthmus_api.problems import Problem
from isthmus_api.store import tables
from isthmus_api.store.access import Access
from isthmus_api.store.audit import Audit, Entry
from isthmus_api.store.database import StoreRefused, open_database
from isthmus_api.store.inventory import Inventory
from isthmus_api.store.work import Item, ItemState, TaskState, Work
from isthmus_model.clocks import WallMs
from sqlalchemy import inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.edge.api.postgres import running_postgres

Story = Callable[[AsyncEngine], Awaitable[None]]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with running_postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def run_story(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    """Runs a story on an empty store."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'api.db'}" if sqlite else request.getfixturevalue("postgres")

    async def run(story: Story) -> None:
        engine = await open_database(url)
        try:
            async with engine.begin() as connection:
                for table in reversed(tables.metadata.sorted_tables):
                    await connection.execute(table.delete())
            await story(engine)
        finally:
            await engine.dispose()

    return lambda story: asyncio.run(run(story))


def _cluster(cluster_id: str, name: str) -> RegisteredCluster:
    return RegisteredCluster(cluster_id, name, "host:9092", ClusterKind.KAFKA, ("eu", "us"), 7)


def test_the_tables_are_those_of_the_migrations(run_story: Callable[[Story], None]) -> None:
    async def story(engine: AsyncEngine) -> None:
        from alembic.autogenerate import compare_metadata
        from alembic.migration import MigrationContext

        async with engine.connect() as connection:
            found = await connection.run_sync(
                lambda sync: compare_metadata(MigrationContext.configure(sync), tables.metadata)
            )
            names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
        assert found == []
        assert set(names) == {*tables.metadata.tables, "alembic_version"}

    run_story(story)


def test_the_inventory_keeps_what_is_registered_once(run_story: Callable[[Story], None]) -> None:
    async def story(engine: AsyncEngine) -> None:
        inventory = Inventory(engine)
        await inventory.put_region(Region("eu", "Europe", 50.1, 8.7))
        await inventory.put_region(Region("eu", "Frankfurt", 50.2, 8.8))
        assert await inventory.regions() == [Region("eu", "Frankfurt", 50.2, 8.8)]
        assert await inventory.remove_region("eu") is True
        assert await inventory.remove_region("eu") is False

        one = _cluster("id-1", "one")
        await inventory.add_cluster(one)
        with pytest.raises(Problem, match=r"This cluster \(id-1\) is registered already, as one\."):
            await inventory.add_cluster(_cluster("id-1", "two"))
        with pytest.raises(Problem, match=r"A cluster named one is registered already; its id is id-1\."):
            await inventory.add_cluster(_cluster("id-2", "one"))
        assert await inventory.clusters() == [one]
        await inventory.update_regions("id-1", ("asia",))
        found = await inventory.cluster("id-1")
        assert found is not None
        assert found.regions == ("asia",)
        assert await inventory.remove_cluster("id-1") is True
        assert await inventory.cluster("id-1") is None

        service = Service("linker-1", ServiceKind.LINKER, "http://x:1/metrics", None, 3)
        await inventory.add_service(service)
        with pytest.raises(Problem, match=r"A service named linker-1 is registered already\."):
            await inventory.add_service(service)
        assert await inventory.services() == [service]

    run_story(story)


def test_the_audit_records_changes_and_their_outcomes(run_story: Callable[[Story], None]) -> None:
    async def story(engine: AsyncEngine) -> None:
        audit = Audit(engine)
        first = await audit.begin(1, "admin", "127.0.0.1", "create_topic", "/x")
        second = await audit.begin(2, "admin", "127.0.0.1", "delete_topic", "/y")
        await audit.end(first, 201, "")
        assert await audit.page(None, 10) == [
            Entry(second, 2, "admin", "127.0.0.1", "delete_topic", "/y", None, ""),
            Entry(first, 1, "admin", "127.0.0.1", "create_topic", "/x", 201, ""),
        ]
        assert [entry.entry_id for entry in await audit.page(second, 10)] == [first]
        assert [entry.entry_id for entry in await audit.page(None, 1)] == [second]
        assert await audit.count() == 2

    run_story(story)


def test_sessions_end_by_themselves_and_are_bounded(run_story: Callable[[Story], None]) -> None:
    async def story(engine: AsyncEngine) -> None:
        access = Access(engine)
        assert await access.admin_digest("a") == "a"
        assert await access.admin_digest("b") == "a"
        await access.add_session("s", "admin", WallMs(100), 200)
        assert await access.session_actor("s", WallMs(199)) == "admin"
        assert await access.session_actor("s", WallMs(200)) is None
        for number in range(SESSIONS_MAX + 1):
            await access.add_session(f"n{number}", "admin", WallMs(300 + number), 10**12)
        assert await access.session_actor("n0", WallMs(400)) is None
        assert await access.session_actor("n1", WallMs(400)) == "admin"
        await access.end_session("n1")
        assert await access.session_actor("n1", WallMs(400)) is None

    run_story(story)


def test_a_task_belongs_to_one_process_until_its_lease_expires(run_story: Callable[[Story], None]) -> None:
    async def story(engine: AsyncEngine) -> None:
        work = Work(engine)
        await work.add("t1", "kind", "admin", {"cluster_id": "c"}, [{"n": 0}, {"n": 1}, {"n": 2}], WallMs(10))
        assert await work.claim("t1", "p1", WallMs(100), 200) is True
        assert await work.claim("t1", "p2", WallMs(199), 300) is False
        assert await work.claim("t1", "p1", WallMs(150), 250) is True
        assert await work.claim("t1", "p2", WallMs(250), 350) is True
        await work.note("t1", {0: (ItemState.DONE, ""), 2: (ItemState.FAILED, "no")}, "waiting", WallMs(20))
        task = await work.task("t1")
        assert task is not None
        assert (task.total, task.done, task.failed, task.message, task.updated_ms) == (3, 1, 1, "waiting", 20)
        assert await work.items("t1", ItemState.PENDING) == [Item(1, {"n": 1}, ItemState.PENDING, "")]
        assert [item.position for item in await work.items("t1", after=0, most=1)] == [1]
        assert [task.task_id for task in await work.open_tasks()] == ["t1"]
        assert await work.finish("t1", TaskState.FAILED, "end", WallMs(30)) is True
        assert await work.finish("t1", TaskState.DONE, "", WallMs(31)) is False
        assert await work.claim("t1", "p2", WallMs(1000), 2000) is False
        assert await work.open_tasks() == []

    run_story(story)


def test_tasks_are_paged_and_bounded(run_story: Callable[[Story], None]) -> None:
    async def story(engine: AsyncEngine) -> None:
        work = Work(engine)
        for number in range(TASKS_OPEN_MAX):
            await work.add(f"t{number:03}", "kind", "admin", {"cluster_id": "c"}, [{}], WallMs(number // 2))
        with pytest.raises(Problem, match="100 tasks are not finished yet"):
            await work.add("more", "kind", "admin", {"cluster_id": "c"}, [{}], WallMs(1))
        first = await work.page(None, 3)
        assert [task.task_id for task in first] == ["t099", "t098", "t097"]
        assert [task.task_id for task in await work.page("t097", 2)] == ["t096", "t095"]
        with pytest.raises(Problem, match="there is no task x"):
            await work.page("x", 2)
        for number in range(TASKS_OPEN_MAX):
            await work.finish(f"t{number:03}", TaskState.DONE, "", WallMs(1))
        async with engine.begin() as connection:
            await connection.execute(
                tables.tasks.insert(),
                [
                    {
                        "task_id": f"old{number}",
                        "kind": "k",
                        "state": "DONE",
                        "actor": "a",
                        "input": {"cluster_id": "c"},
                    }
                    | {"message": "", "created_ms": -number, "updated_ms": 0, "owned_until_ms": 0}
                    for number in range(TASKS_KEPT)
                ],
            )
        await work.add("last", "kind", "admin", {"cluster_id": "c"}, [{}], WallMs(1))
        async with engine.connect() as connection:
            left = (await connection.execute(text("SELECT count(*) FROM tasks"))).scalar_one()
            oldest = (await connection.execute(text("SELECT min(created_ms) FROM tasks"))).scalar_one()
        assert left == TASKS_KEPT + 1
        assert oldest == -(TASKS_KEPT - TASKS_OPEN_MAX - 1)

    run_story(story)


def test_another_store_is_refused() -> None:
    with pytest.raises(StoreRefused, match="the store is SQLite or PostgreSQL, not mysql"):
        asyncio.run(open_database("mysql://host/name"))
    with pytest.raises(StoreRefused, match="'nonsense' is not a database URL"):
        asyncio.run(open_database("nonsense"))
