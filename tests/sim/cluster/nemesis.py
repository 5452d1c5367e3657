"""The faults of a cluster: of processes, machines, disks, clocks and the network, within what the cluster must survive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.sim.cluster.loop import SimLoop
from tests.sim.cluster.machine import Machine
from tests.sim.cluster.net import Link
from tests.sim.cluster.plan import Plan, Rates
from tests.sim.power.errors import Operation
from tests.sim.world import World

_START_AGAIN_SECONDS = 0.05


class Nemesis:
    """Causes faults until `stop`, and then undoes them."""

    def __init__(
        self,
        world: World,
        loop: SimLoop,
        plan: Plan,
        rates: Rates,
        machines: Sequence[Machine],
        clients: Sequence[str],
        is_recovered: Callable[[Machine], bool],
    ) -> None:
        """`clients` are hosts; `is_recovered` is whether a machine has everything again that it may have lost."""
        self._world = world
        self._random = world.random
        self._loop = loop
        self._plan = plan
        self._rates = rates
        self._machines = machines
        self._hosts = [machine.host for machine in machines] + list(clients)
        self._is_recovered = is_recovered
        self._is_over = False
        self._lossy: list[Machine] = []
        """Machines that lost records in a power failure and have not recovered yet."""

    def start(self) -> None:
        rates = self._rates
        self._often(rates.kill_every, self._kill)
        self._often(rates.power_every, self._cut_power)
        self._often(rates.site_every, self._fail_site)
        self._often(rates.pause_every, self._pause)
        self._often(rates.cut_every, self._cut)
        self._often(rates.reset_every, lambda: self._loop.net.reset_some(self._random.random()))
        self._often(rates.slow_every, self._slow)
        self._often(rates.clock_every, self._step_clock)
        self._often(rates.full_every, self._fill_disk)
        self._often(rates.eio_every, self._fail_disk)
        self._often(rates.roll_every, self._roll)

    def stop(self) -> None:
        """End all faults; machines that are down start again."""
        self._is_over = True
        self._loop.net.links.clear()
        self._loop.net.heal()
        for machine in self._machines:
            machine.disk.capacity = 1 << 40
            machine.disk.repair()
            machine.is_held_down = False
            if machine.process is not None and machine.process.is_stopped:
                self._loop.continue_process(machine.process)
            if machine.may_fail and machine.is_running:
                self._reboot(machine)  # its log directory may be offline
            machine.may_fail = False

    def log(self, what: str) -> None:
        self._world.now = int(self._loop.time() * 1000)
        self._world.log(0, what)

    def _often(self, every: float | None, action: Callable[[], None]) -> None:
        """Repeat an action at random intervals with this mean."""
        if every is None:
            return
        mean = every

        def act() -> None:
            if not self._is_over:
                if not self.is_anything_lost:
                    action()
                self._loop.call_later(2 * mean * self._random.random(), act)

        self._loop.call_later(2 * mean * self._random.random(), act)

    def _later(self, most: float, action: Callable[[], None]) -> None:
        """Undo a fault after some time, unless all are undone before."""
        self._loop.call_later(most * self._random.random(), lambda: None if self._is_over else action())

    def supervise(self) -> None:
        """Start nodes that ended, as a service manager does."""
        for machine in self._machines:
            is_due = self._random.random() < 0.1 if machine.may_fail else not machine.is_held_down
            if not machine.is_running and is_due:
                self.log(f"{machine.host} starts")
                machine.start()
        self._loop.call_later(_START_AGAIN_SECONDS, self.supervise)

    def _any(self) -> Machine:
        return self._machines[self._random.randrange(len(self._machines))]

    # -- processes and machines ----------------------------------------------------------------------------------------------

    def _hold_down(self, machine: Machine) -> None:
        machine.is_held_down = True

        def release() -> None:
            machine.is_held_down = False

        self._later(self._rates.down_max, release)

    def _kill(self) -> None:
        machine = self._any()

        def kill() -> None:
            self.log(f"{machine.host} is killed")
            self._hold_down(machine)
            machine.kill()

        if machine.is_running:
            self._now_or_in_an_operation(machine, kill)

    def _cut_power(self) -> None:
        machine = self._any()

        def cut() -> None:
            if self._may_lose_power(machine):
                self.log(f"{machine.host} loses power")
                self._lossy.append(machine)
                self._hold_down(machine)
                machine.cut_power()

        self._now_or_in_an_operation(machine, cut)

    def _now_or_in_an_operation(self, machine: Machine, fault: Callable[[], None]) -> None:
        """Cause a fault now, or during one of the next operations of the machine's disk."""
        if machine.is_running and self._random.random() < 0.3:
            machine.disk.act_at(
                self._random.randint(1, 40), lambda: None if self._is_over or self.is_anything_lost else fault()
            )
        else:
            fault()

    def _may_lose_power(self, machine: Machine) -> bool:
        """Whether no acknowledged record can be lost. What is not synced exists only in the page caches of the replicas in sync, so all
        others must be healthy, as the followers of Apache Kafka must be."""
        if self._plan.syncs_each_append or machine.node_id not in self._plan.brokers:
            return True
        others = [each for each in self._machines if each is not machine]
        return bool(others) and self._loop.net.is_healthy and all(map(self._is_healthy, others))

    def _is_healthy(self, machine: Machine) -> bool:
        process = machine.process
        return process is not None and not process.is_stopped and not machine.may_fail and self._is_recovered(machine)

    @property
    def is_anything_lost(self) -> bool:
        """Whether a machine that lost its page cache is still recovering: another fault could lose records."""
        self._lossy = [machine for machine in self._lossy if not self._is_recovered(machine)]
        return bool(self._lossy) and not self._plan.syncs_each_append

    def _fail_site(self) -> None:
        what = "loses power" if self._plan.syncs_each_append else "is killed"
        self.log(f"the site {what}")
        for machine in self._machines:
            self._hold_down(machine)
            self._reboot(machine)

    def _reboot(self, machine: Machine) -> None:
        """End a machine's node, with its page cache if everything acknowledged is synced."""
        if self._plan.syncs_each_append:
            machine.cut_power()
        else:
            machine.kill()

    def _pause(self) -> None:
        machine = self._any()
        process = machine.process
        if process is None or process.is_stopped:
            return
        self.log(f"{machine.host} stops for a while")
        self._loop.stop_process(process)
        self._later(self._rates.pause_max, lambda: self._loop.continue_process(process))

    def _roll(self) -> None:
        machine = self._any()
        if machine.is_serving:
            self.log(f"{machine.host} is restarted")
            machine.stop()

    # -- the network ---------------------------------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Cut some hosts off from the rest, in one direction or both."""
        part = {host for host in self._hosts if self._random.random() < 0.3}
        is_one_way = self._random.random() < self._rates.one_way
        self.log(f"cuts off {sorted(part)}{' one way' if is_one_way else ''}")
        for inside in sorted(part):
            for outside in self._hosts:
                if outside not in part:
                    self._loop.net.cut(inside, outside)
                    if not is_one_way:
                        self._loop.net.cut(outside, inside)
        self._later(self._rates.cut_max, self._loop.net.heal)

    def _slow(self) -> None:
        """Make the links of one host slow."""
        host = self._hosts[self._random.randrange(len(self._hosts))]
        link = Link(0.2 * self._random.random(), 0.3 * self._random.random(), self._random.choice((0.0, 1e-4)))
        self.log(f"{host} has slow links")
        links = self._loop.net.links
        for other in self._hosts:
            links[host, other] = links[other, host] = link
        self._later(2.0, links.clear)

    # -- clocks and disks ----------------------------------------------------------------------------------------------------

    def _step_clock(self) -> None:
        machine, hour = self._any(), 3_600_000
        machine.wall_offset_ms = self._random.choice(
            (0, self._random.randint(-hour, hour), self._random.randint(-99, 99))
        )
        self.log(f"{machine.host} has its clock set {machine.wall_offset_ms} ms from the truth")

    def _fill_disk(self) -> None:
        machine = self._any()
        if machine.may_fail:
            return
        self.log(f"{machine.host} has a full disk")
        machine.may_fail = True
        machine.disk.capacity = machine.disk.used + self._random.choice((0, 100, 3_000))

        def free() -> None:
            self.log(f"{machine.host} has room again")
            machine.disk.capacity = 1 << 40

        self._later(2.0, free)

    def _fail_disk(self) -> None:
        """Let operations of a disk fail with EIO. After a failed sync, only a power loss shows what is durable."""
        machine = self._any()
        if machine.may_fail:
            return
        kinds: Sequence[Operation] = (
            ("read", "write", "entry", "sync") if self._plan.syncs_each_append else ("read", "write", "entry")
        )
        kind, times = self._random.choice(kinds), self._random.choice((1, None))
        self.log(f"{machine.host} has a disk that fails: {kind}, {times or 'every'} time")
        machine.may_fail = True
        machine.disk.fail(kind, times=times)

        def replace() -> None:
            self.log(f"{machine.host} has a disk that works again")
            machine.disk.repair()
            self._reboot(machine)

        self._later(2.0, replace)
