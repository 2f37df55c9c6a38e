"""A real Apache RocketMQ for tests: a name server and a broker on this machine.

The jars come from Maven Central into the user's cache, once; both processes together need less
than 1 GiB. Where they cannot be had, the tests are skipped and told why.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from headrace.testing import wait_for
from support.toolchain import cache_for, fetch, need, unavailable

HERE = Path(__file__).parents[2] / "interop" / "rocketmq"
VERSION = os.environ.get("ROCKETMQ_TEST_VERSION", "5.3.3")
OLD_VERSION = "4.9.7"
CLUSTER = "DefaultCluster"
BROKER = "broker-a"
START_LIMIT = 90

# 4.9 reaches into the JDK to free its mapped files.
_JAVA = [
    "java",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
]
LOGBACK = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date %level %logger{0} %message%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""
_BROKER_CONF = """\
brokerClusterName={cluster}
brokerName={broker}
brokerId=0
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
listenPort={port}
haListenPort={ha_port}
namesrvAddr=127.0.0.1:{name_port}
storePathRootDir={store}
storePathCommitLog={store}/commitlog
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=60000
maxMessageSize=4194304
flushDiskType=ASYNC_FLUSH
brokerRole=ASYNC_MASTER
autoCreateTopicEnable=true
autoCreateSubscriptionGroup=true
enablePropertyFilter=true
diskMaxUsedSpaceRatio=95
warmMapedFileEnable=false
transientStorePoolEnable=false
timerWheelEnable=false
transactionCheckInterval=5000
transactionTimeOut=3000
useEpollNativeSelector=false
"""


def libraries(version: str = VERSION) -> str:
    """The class path of name server, broker, Java client and mqadmin; or a skip."""
    need("java", "mvn")
    pom = HERE / "pom.xml"
    target = cache_for(f"rocketmq-{version}", pom.read_bytes())
    done = target / "complete"
    if not done.exists():
        copy = ["mvn", "-q", "-B", "-f", str(pom), f"-Drocketmq.version={version}"]
        copy += ["dependency:copy-dependencies", f"-DoutputDirectory={target / 'lib'}"]
        fetch(copy, target)
        done.touch()
    return f"{target / 'lib'}/*"


@dataclass
class Apache:
    """The two processes; each can be stopped, killed and started again on its port."""

    directory: Path
    version: str = VERSION
    name_port: int = 0
    broker_port: int = 0
    broker_name: str = BROKER
    settings: str = ""
    """Lines for the broker's configuration."""
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def name_address(self) -> str:
        return f"127.0.0.1:{self.name_port}"

    @property
    def broker_address(self) -> str:
        return f"127.0.0.1:{self.broker_port}"

    def start(self) -> Apache:
        """Both processes, and the broker known to the name server."""
        self._prepare()
        self.start_name_server()
        self.start_broker()
        return self

    def start_name_server(self) -> None:
        self._run("namesrv", "namesrv.NamesrvStartup", ["-Xms64m", "-Xmx128m"])

    def start_broker(self) -> None:
        memory = ["-Xms256m", "-Xmx256m", "-Xmn128m", "-XX:MaxDirectMemorySize=256m"]
        self._run("broker", "broker.BrokerStartup", memory)

    def kill(self, which: str) -> None:
        """``namesrv`` or ``broker``, without a chance to say goodbye."""
        self._end(which, subprocess.Popen.kill)

    def stop(self) -> None:
        for which in ("broker", "namesrv"):
            if which in self._processes:
                self._end(which, subprocess.Popen.terminate)

    def log(self, which: str) -> str:
        return (self.directory / f"{which}.out").read_text(errors="replace")

    def _prepare(self) -> None:
        conf = self.directory / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        for name in ("namesrv", "broker"):
            (conf / f"logback_{name}.xml").write_text(LOGBACK)
        self.name_port, self.broker_port = _free_ports()
        names = f"listenPort={self.name_port}\nbindAddress=127.0.0.1\n"
        (self.directory / "namesrv.conf").write_text(names)
        settings = _BROKER_CONF.format(
            cluster=CLUSTER,
            broker=BROKER,
            port=self.broker_port,
            ha_port=self.broker_port + 1,
            name_port=self.name_port,
            store=self.directory / "store",
        )
        (self.directory / "broker.conf").write_text(settings + self.settings)

    def _run(self, which: str, main: str, memory: list[str]) -> None:
        home = f"-Drocketmq.home.dir={self.directory}"
        logs = [f"-Duser.home={self.directory}", "-Drocketmq.log.level=WARN"]
        command = [*_JAVA, *memory, home, *logs, "-cp", libraries(self.version)]
        command += [f"org.apache.rocketmq.{main}", "-c", str(self.directory / f"{which}.conf")]
        with (self.directory / f"{which}.out").open("wb") as out:
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "NAMESRV_ADDR": self.name_address},
            )
        self._processes[which] = process

        def booted() -> bool:
            return "boot success" in self.log(which) or process.poll() is not None

        with contextlib.suppress(AssertionError):
            wait_for(booted, START_LIMIT, 0.05)
        if "boot success" not in self.log(which):
            self.stop()
            unavailable(f"Apache RocketMQ does not start: {self.log(which)[-600:]}")

    def _end(self, which: str, how: object) -> None:
        process = self._processes.pop(which)
        assert callable(how)
        how(process)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports() -> tuple[int, int]:
    """One for the name server; one for the broker, which also uses those at -2 and +1."""
    while True:
        with contextlib.ExitStack() as stack:
            name = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            broker = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = broker.getsockname()[1]
            try:
                for near in (port - 2, port + 1):
                    stack.enter_context(socket.create_server(("127.0.0.1", near)))
            except OSError:
                continue
            return name.getsockname()[1], port
