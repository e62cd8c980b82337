"""An order and its reminder: written in one transaction, both or neither.

The store and the orders share a database: a new SQLite file, or the one whose URL is on
the command line, such as ``postgresql+psycopg://user:password@host/database``, which
SQLAlchemy and the store both understand. It prints::

    order 1 is rolled back, and so is its reminder
    order 2 is committed
    the customer is reminded of order 2
    1 order, 1 reminder
"""

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from go_scheduler import ExecuteOnceTrigger, Scheduler, TaskDefinition, TaskInstance
from go_scheduler.stores import open_store


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "example_orders"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


reminded: SimpleQueue[object] = SimpleQueue()


def remind(instance: TaskInstance) -> None:
    reminded.put(instance.metadata["order"])


def reminder(order: int) -> TaskDefinition:
    in_a_moment = datetime.now(UTC) + timedelta(seconds=0.2)
    return TaskDefinition(
        id=TaskDefinition.id_for(f"reminder of order {order}"),
        trigger=ExecuteOnceTrigger(in_a_moment),
        metadata={"order": order},
    )


def order(session: Session, scheduler: Scheduler, number: int) -> None:
    session.add(Order(id=number))
    scheduler.schedule(reminder(number), connection=session)


def main(url: str) -> None:
    engine, store = create_engine(url), open_store(url)
    Base.metadata.create_all(engine)
    with Scheduler(remind, store) as scheduler:
        with Session(engine) as session:
            order(session, scheduler, 1)
            session.rollback()
        print("order 1 is rolled back, and so is its reminder", flush=True)

        with Session(engine) as session:
            order(session, scheduler, 2)
            session.commit()
            print("order 2 is committed", flush=True)
        print(f"the customer is reminded of order {reminded.get()}")

    with Session(engine) as session:
        orders = session.query(Order).count()
    kept = scheduler.list_definitions(ids=[reminder(1).id, reminder(2).id])
    print(f"{orders} order, {len(kept)} reminder")
    scheduler.delete_definitions(ids=[each.id for each in kept])
    Base.metadata.drop_all(engine)
    engine.dispose()
    store.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"sqlite:///{Path(folder) / 'shop.db'}")
