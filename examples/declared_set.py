"""A declared set: what an application schedules is what its code says, and no more.

Each version of the program declares all of its definitions at its start. What is taken
out of the code is taken out of the store; what is still in it goes on as if nothing had
been. A process of an old version that starts late in a rolling deploy undoes nothing.
It prints::

    version 1: backup, report
    version 2: newsletter, report
    version 1, started late: newsletter, report
    report fires at 09:00 as before: True
"""

from go_scheduler import CronTrigger, MemoryStore, Scheduler, Store, TaskDefinition


def daily(name: str, hour: int) -> TaskDefinition:
    return TaskDefinition(
        id=TaskDefinition.id_for(name),
        name=name,
        trigger=CronTrigger(hour=hour, timezone="Europe/Berlin"),
    )


VERSIONS = {
    1: [daily("backup", 3), daily("report", 9)],
    2: [daily("report", 9), daily("newsletter", 17)],
}


def start(version: int, store: Store) -> str:
    """What each process of this version does at its start; the names it leaves."""
    scheduler = Scheduler(print, store)
    scheduler.declare(VERSIONS[version], owner="newspaper", version=version)
    found = scheduler.list_definitions(owner="newspaper")
    return ", ".join(sorted(str(each.name) for each in found))


def main() -> None:
    store = MemoryStore()
    print("version 1:", start(1, store))
    before = store.get_definition(TaskDefinition.id_for("report"))
    print("version 2:", start(2, store))
    print("version 1, started late:", start(1, store))
    after = store.get_definition(TaskDefinition.id_for("report"))
    same = (after.next_fire_time, after.revision)
    unchanged = same == (before.next_fire_time, before.revision)
    print("report fires at 09:00 as before:", unchanged)


if __name__ == "__main__":
    main()
