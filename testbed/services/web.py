"""HTTP: nginx on top of vmuf's mount; Squid; and software from the one by the other, in place of CVMFS.

nginx serves by https, too, where XRootD does; the certificate is the same.

Squid is a cache in memory, as one process or several that share it: on dgt for the workers behind it, and on proxies.
Of these there are as many at each of the two sites, where the settings say so, and with them workers beside the
storage: the clients of one site's proxies are at the other one.

In place of CVMFS, which no distribution has, stands rclone, which mounts what a web server lists and keeps what it has
fetched. The public workers mount it, with a cache.
"""

from collections.abc import Iterator

from tierbench.errors import HostError
from tierbench.testbed.cgroups import ACCOUNT, PERIOD_US, means
from tierbench.testbed.host import ANSWER_SECONDS, RunningHost, filled, verbatim
from tierbench.testbed.service import Bed, Question, Service
from tierbench.testbed.services.conditions import offer
from tierbench.testbed.services.filesystem import MOUNT_POINT as DATA_MOUNT
from tierbench.testbed.services.filesystem import MOUNTS
from tierbench.testbed.services.xrootd import AUTHORITIES, BESIDE_STORAGE, CERTIFICATE, PRIVATE_KEY, XROOTD
from tierbench.testbed.settings import Settings
from tierbench.testbed.topology import FIU, GATEWAY, UF, Host, Nic

PORT, TLS_PORT = 8000, 8447
CONFIGURATION = "/etc/nginx/tierbench.conf"
SERVED = "/srv/software"  # what nginx serves as /software/
SHARED = "/software"  # below it mounts come and go for jobs as well, which have a copy of all others
MOUNT_POINT = f"{SHARED}/now"
CACHES = "/var/cache/software"
COMMAND = "/usr/local/sbin/software-cache"
INSTALLED = "/usr/local/lib/python3*/dist-packages"  # where ROOT is, on every host
SQUID_PORT = 3128
SQUID_CONFIGURATION = "/etc/squid/tierbench.conf"
SQUID_CORE = "/etc/squid/core"  # a process's CPU, in microseconds a period
SITES = {"squ": UF, "sqf": FIU}  # what proxies are called there
WORKER = "wnu"

# -- nginx ------------------------------------------------------------------------------------------------


def tls_ports(settings: Settings) -> set[int]:
    return {TLS_PORT} if settings.token_door else set()


def stage_server(bed: Bed) -> None:
    tls = "".join(
        f"listen {port} ssl backlog=4096; ssl_certificate {CERTIFICATE}; ssl_certificate_key {PRIVATE_KEY};"
        for port in tls_ports(bed.settings)
    )
    text = filled("nginx.conf", port=PORT, tls=tls, mount_point=DATA_MOUNT, software=SERVED)
    bed[BESIDE_STORAGE].stage(CONFIGURATION, text)


def start_server(bed: Bed) -> None:
    bed[BESIDE_STORAGE].script(["mkdir -p /var/lib/nginx /var/log/nginx"])
    bed[BESIDE_STORAGE].daemon("nginx", "nginx", "-e", "stderr", "-c", CONFIGURATION)


def ask_server(bed: Bed) -> list[Question]:
    """Whether it serves the mount's own folder, if only to say that it does not list it."""
    host = bed[BESIDE_STORAGE]
    urls = [f"http://{host.fqdn}:{PORT}", *(f"https://{host.fqdn}:{port}" for port in tls_ports(bed.settings))]
    ask = ("curl", "--silent", "--output", "/dev/null", "--capath", AUTHORITIES, "--write-out", "%{http_code}")

    def answers() -> bool:
        pages = (host.run(*ask, f"{url}{DATA_MOUNT}/", check=False, timeout=ANSWER_SECONDS) for url in urls)
        return all(page.stdout == "403" for page in pages)

    return [Question(host, "nginx", answers, f"answers at {'/ and '.join(urls)}/", "nginx.log")]


NGINX = Service(
    "nginx", packages=("nginx-light", "curl"), after=(MOUNTS, XROOTD), stage=stage_server, start=start_server,
    questions=ask_server,
)  # fmt: skip

# -- Squid ------------------------------------------------------------------------------------------------


def proxy_machines(settings: Settings) -> Iterator[Host]:
    rate = settings.rates_mbps
    for number in range(settings.proxies):
        for name, network in SITES.items():
            yield Host(f"{name}{number + 1}", (Nic("eth0", network, 61 + number, rate.server),), in_pool=True)
        nic = Nic("eth0", UF, 101 + number, rate.worker)
        yield Host(f"{WORKER}{number + 1}", (nic,), in_pool=True, is_worker=True)


def proxies(bed: Bed) -> list[RunningHost]:
    """All hosts on which Squid runs."""
    return bed.where(lambda host: host.name == GATEWAY or host.name[:3] in SITES)


def stage_proxies(bed: Bed) -> None:
    for host in proxies(bed):
        offer(host, "squid-processes", "squid-affinity")
        host.stage("/usr/local/lib/tierbench/squid-anew", verbatim("squid-anew"), 0o755)
        text = filled("squid.conf", port=SQUID_PORT, workers=bed.settings.squid_workers, host=host.fqdn)
        host.stage(SQUID_CONFIGURATION, text)


def start_proxies(bed: Bed) -> None:
    # Several processes of it talk by sockets in /run/squid, and share their cache in /dev/shm.
    for host in proxies(bed):
        host.script([
            "install -d -o proxy -g proxy /run/squid",
            "mkdir -p /dev/shm",
            "mountpoint -q /dev/shm || mount -t tmpfs tmpfs /dev/shm",
        ])  # fmt: skip
        host.daemon("squid", "squid", "--foreground", "-f", SQUID_CONFIGURATION)
        if bed.settings.proxy_core and host.name != GATEWAY:
            limit_cores(host, bed.settings.proxy_core, bed.settings.squid_workers)


def limit_cores(host: RunningHost, core: float, processes: int) -> None:
    """Let a host use so much CPU for each of Squid's processes, of which squid-anew may change the number."""
    if not host.namespaces.cgroup.limited:
        why = means().missing or "no control group"
        raise HostError(f"proxy_core: the CPU of {host.name} cannot be limited: {why}")
    host.put(SQUID_CORE, f"{round(core * PERIOD_US)}\n")
    host.script([f"for file in {ACCOUNT}/cpu.*; do mount -o remount,bind,rw $file; done"])
    host.namespaces.cgroup.limit(core * processes)


def ask_proxies(bed: Bed) -> Iterator[Question]:
    """Whether its cache manager shows its counters."""
    ask = ("curl", "--silent", "--fail", f"http://127.0.0.1:{SQUID_PORT}/squid-internal-mgr/counters")
    for host in proxies(bed):
        yield Question(host, "squid", ask, f"answers at {host.fqdn}:{SQUID_PORT}", "squid.log")


SQUID = Service(
    "Squid", packages=("squid", "curl"), machines=proxy_machines, stage=stage_proxies, start=start_proxies,
    questions=ask_proxies,
)  # fmt: skip

# -- software ---------------------------------------------------------------------------------------------


def clients(bed: Bed) -> list[RunningHost]:
    return bed.where(lambda host: host.is_worker and host.network_kind == "public")


def stage_mounts(bed: Bed) -> None:
    url = f"http://{bed[BESIDE_STORAGE].fqdn}:{PORT}/software/"
    proxy = f"{bed[GATEWAY].fqdn}:{SQUID_PORT}"
    script = filled("software-cache", mount_point=MOUNT_POINT, caches=CACHES, url=url, proxy=proxy)
    for client in clients(bed):
        client.stage(COMMAND, script, 0o755)
        offer(client, "software-cache")


def start_mounts(bed: Bed) -> None:
    """Lay out what of ROOT a client opens, without the thousands of headers; then mount it, with an empty cache."""
    bed[BESIDE_STORAGE].script([
        f"mkdir -p {SERVED}/ROOT/include",
        f"ln -s {INSTALLED}/root.libs {SERVED}/",
        f"ln -s {INSTALLED}/ROOT/bin {INSTALLED}/ROOT/etc {INSTALLED}/ROOT/lib {SERVED}/ROOT/",
        f"ln -s {INSTALLED}/ROOT/include/*.modulemap {SERVED}/ROOT/include/",
    ])  # fmt: skip
    for client in clients(bed):
        client.script([f"mkdir -p {SHARED} && mount -t tmpfs none {SHARED}", f"mount --make-shared {SHARED}"])
        client.run(COMMAND, "set", "cold")


def ask_mounts(bed: Bed) -> Iterator[Question]:
    for client in clients(bed):
        yield Question(client, "software", ("test", "-e", f"{MOUNT_POINT}/ROOT/lib"), f"{MOUNT_POINT} answers")


SOFTWARE = Service(
    "software by HTTP", packages=("rclone",), after=(NGINX, SQUID), stage=stage_mounts, start=start_mounts,
    wanted=lambda settings: settings.software_mounts and settings.public_workers, questions=ask_mounts,
)  # fmt: skip
