"""A transfer that happens once: its rows and the run's success in one transaction.

A run that fails half-way is logged and repeated, by design. Here its writes are rolled
back with it, and once they are committed so is its success: the money moves exactly
once, even if the process dies at the worst moment. The database is a new SQLite file,
or the one whose URL is on the command line, such as
``postgresql+psycopg://user:password@host/database``. It prints::

    attempt 1: moves 10, and fails before the commit
    balances: ana 100, ben 0
    attempt 2: moves 10
    balances: ana 90, ben 10
"""

import sys
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, String, create_engine, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from go_scheduler import (
    ExecuteOnceTrigger,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
    TaskInstance,
    current_run,
)
from go_scheduler.stores import open_store


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "example_accounts"

    owner: Mapped[str] = mapped_column(String(20), primary_key=True)
    balance: Mapped[int]


class Bank:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.attempts = 0
        self.transferred = threading.Event()

    def open_accounts(self) -> None:
        Base.metadata.create_all(self.engine)
        with Session(self.engine) as session, session.begin():
            session.add_all(
                [Account(owner="ana", balance=100), Account(owner="ben", balance=0)]
            )

    def transfer(self, instance: TaskInstance) -> None:
        self.attempts += 1
        amount = instance.metadata["amount"]
        assert isinstance(amount, int)
        with Session(self.engine) as session, session.begin():
            for owner, change in (("ana", -amount), ("ben", amount)):
                session.execute(
                    update(Account)
                    .where(Account.owner == owner)
                    .values(balance=Account.balance + change)
                )
            current_run().complete_in(session)
            if self.attempts == 1:
                print(f"attempt 1: moves {amount}, and fails before the commit")
                raise ConnectionError("the network is away")
            print(f"attempt {self.attempts}: moves {amount}")
        self.transferred.set()

    def show(self) -> None:
        with Session(self.engine) as session:
            accounts = session.scalars(select(Account).order_by(Account.owner))
            shown = ", ".join(f"{each.owner} {each.balance}" for each in accounts)
        print(f"balances: {shown}", flush=True)


def main(url: str) -> None:
    engine, store = create_engine(url), open_store(url)
    bank = Bank(engine)
    bank.open_accounts()

    def handler(instance: TaskInstance) -> None:
        try:
            bank.transfer(instance)
        finally:
            bank.show()

    with Scheduler(handler, store) as scheduler:
        transfer = scheduler.schedule(
            TaskDefinition(
                trigger=ExecuteOnceTrigger(datetime.now(UTC)),
                metadata={"amount": 10},
                retry=RetryPolicy(max_attempts=2, delay=timedelta(seconds=0.5)),
            )
        )
        bank.transferred.wait()
    scheduler.delete_definition(transfer.id)
    Base.metadata.drop_all(engine)
    engine.dispose()
    store.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"sqlite:///{Path(folder) / 'bank.db'}")
