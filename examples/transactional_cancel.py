"""An order is cancelled: so are its reminder and its mail, in one transaction.

The store and the orders share a database: a new SQLite file, or the one whose URL is on
the command line, such as ``postgresql+psycopg://user:password@host/database``, which
SQLAlchemy and the store both understand. It prints::

    order 1 is rolled back: 1 reminder, 1 mail
    order 1 is cancelled: 0 reminders, 0 mails
"""

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from sqlalchemy import Uuid, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from go_scheduler import (
    ExecuteOnceTrigger,
    OnDemandTrigger,
    Scheduler,
    State,
    TaskDefinition,
)
from go_scheduler.stores import open_store

SEND = TaskDefinition(
    trigger=OnDemandTrigger(), id=TaskDefinition.id_for("task send"), name="send"
)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "example_cancelled_orders"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    mail: Mapped[UUID] = mapped_column(Uuid)


def reminder(number: int) -> TaskDefinition:
    return TaskDefinition(
        id=TaskDefinition.id_for(f"reminder of order {number}"),
        trigger=ExecuteOnceTrigger(datetime.now(UTC) + timedelta(days=3)),
    )


def place(session: Session, scheduler: Scheduler, number: int) -> None:
    scheduler.schedule(reminder(number), connection=session)
    mail = scheduler.enqueue(
        "send", order=number, delay=timedelta(hours=1), connection=session
    )
    session.add(Order(id=number, mail=mail.id))


def cancel(session: Session, scheduler: Scheduler, number: int) -> None:
    order = session.get_one(Order, number)
    scheduler.delete_definition(reminder(number).id, connection=session)
    scheduler.cancel(order.mail, connection=session)
    session.delete(order)


def left(scheduler: Scheduler) -> str:
    reminders = len(scheduler.list_definitions(ids=[reminder(1).id]))
    mails = len(scheduler.list_instances(definition_id=SEND.id, state=State.PENDING))
    plural = "" if mails == 1 else "s"
    return f"{reminders} reminder{plural}, {mails} mail{plural}"


def main(url: str) -> None:
    engine, store = create_engine(url), open_store(url)
    Base.metadata.create_all(engine)
    # Somebody else runs what is due.
    scheduler = Scheduler(None, store)
    scheduler.schedule(SEND)

    with Session(engine) as session, session.begin():
        place(session, scheduler, 1)

    with Session(engine) as session:
        cancel(session, scheduler, 1)
        session.rollback()
    print(f"order 1 is rolled back: {left(scheduler)}")

    with Session(engine) as session:
        cancel(session, scheduler, 1)
        session.commit()
    print(f"order 1 is cancelled: {left(scheduler)}")

    scheduler.delete_definition(SEND.id)
    Base.metadata.drop_all(engine)
    engine.dispose()
    store.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"sqlite:///{Path(folder) / 'shop.db'}")
