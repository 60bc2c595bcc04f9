"""Databases for the tests: SQLite in a file, and a PostgreSQL cluster of the test run's own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from palmkit.delivery.server.database import connect, migrate


def postgres_programs() -> Path | None:
    """Return the folder of the newest PostgreSQL server programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def runuser() -> str | None:
    # It lies where only root's path looks.
    return shutil.which("runuser") or shutil.which("runuser", path="/usr/sbin:/sbin")


def _as_postgres(*command: str | Path) -> list[str]:
    # The server refuses to run as root.
    words = [str(word) for word in command]
    if os.geteuid() != 0:
        return words
    return [str(runuser()), "-u", "postgres", "--", *words]


class Cluster:
    """A PostgreSQL server in a temporary folder, reached by a socket in it."""

    def __init__(self, programs: Path, durable: bool = False) -> None:
        # Tests kill processes, not the machine; syncing all that they left at the next start
        # would take longer than all of them.
        self._fsync = "on" if durable else "off"
        self.programs = programs
        # Not pytest's folder: the path of a socket may have 107 characters, and another user
        # must be able to enter.
        self.folder = Path(tempfile.mkdtemp(prefix="pg"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self.data = self.folder / "data"
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", "test", "--no-sync")
        self.start()
        self._databases = 0

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            _as_postgres(self.programs / program, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            cwd="/",
        )
        assert done.returncode == 0, done.stdout

    def start(self) -> None:
        settings = (
            f"fsync={self._fsync}",
            "listen_addresses=",
            f"unix_socket_directories={self.folder}",
        )
        options = " ".join(f"-c {setting}" for setting in settings)
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.data, "-w", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def url(self, database: str) -> str:
        return f"postgresql://test@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """Return the URL of a new, empty database."""
        self._databases += 1
        name = f"palmkit_{self._databases}"
        driver = self.url("postgres").replace("postgresql:", "postgresql+psycopg:", 1)
        engine = create_engine(driver, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.url(name)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    programs = postgres_programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's server programs (Debian: postgresql)")
    if os.geteuid() == 0 and runuser() is None:
        pytest.skip("needs runuser to run PostgreSQL as another user than root")
    pytest.importorskip("psycopg", reason='needs the extra "postgres"')
    cluster = Cluster(programs)
    yield cluster
    cluster.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'server.db'}"
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster.new_database()


@pytest.fixture
def database(url: str) -> Iterator[Engine]:
    """Yield a database with tables, of either kind."""
    engine = connect(url)
    migrate(engine)
    yield engine
    engine.dispose()
